#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

/// Plug-ins of one interface by name. A file-scope `Registered` object adds one; a std::map keeps
/// the names in order whatever the order of start-up.
template <class Factory>
class Registry {
 public:
  static std::map<std::string, Factory>& entries() {
    static std::map<std::string, Factory> map;
    return map;
  }
  /// Null when there is no such plug-in.
  static const Factory* find(const std::string& name) {
    const auto it = entries().find(name);
    return it == entries().end() ? nullptr : &it->second;
  }
  static std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const auto& [name, factory] : entries()) out.push_back(name);
    return out;
  }
};

/// `const Registered<Factory> me("name", factory);` at file scope registers a plug-in.
template <class Factory>
struct Registered {
  Registered(std::string name, Factory factory) {
    Registry<Factory>::entries().emplace(std::move(name), std::move(factory));
  }
};
