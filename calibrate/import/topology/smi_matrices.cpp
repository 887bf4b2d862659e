// `nvidia-smi topo -m` and `nvidia-smi topo -p2p r|w`: matrices of words between GPUs. The cells
// tell which of the two it is. Columns of NICs and of affinities are known by the header.
// Leaves out: rows of NICs, CPU affinities, and what -p2p n, a and p ask (NVLink, atomics, caps),
// where the command stands above the matrix; without it they look like r and w.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "calibrate/import/topology/text_scan.hpp"
#include "calibrate/import/topology/topology_facts.hpp"

namespace {

const std::vector<std::string> class_words{"X", "NV1", "PIX", "PXB", "PHB", "NODE", "SYS"};
const std::vector<std::string> p2p_words{"X", "OK", "CNS", "GNS", "TNS", "DR", "NS", "U"};

bool is_p2p(std::string_view word) {
  return word != "X" && std::find(p2p_words.begin(), p2p_words.end(), word) != p2p_words.end();
}

struct Cell {
  PathClass path = PathClass::self;
  int nvlinks = 0;
};

std::optional<Cell> class_cell(std::string_view word) {
  if (word == "SOC") word = "SYS";  // drivers before 384
  for (const auto c : {PathClass::self, PathClass::pix, PathClass::pxb, PathClass::phb,
                       PathClass::node, PathClass::sys})
    if (word == name(c)) return Cell{c, 0};
  if (const auto links = number_after(word, "NV"); links && *links >= 1 && *links <= 64)
    return Cell{PathClass::nvlink, *links};
  return {};
}

// A header names GPU0 first, and a column follows where a row has "X".
bool is_header(const std::vector<Word>& words) {
  if (words.empty() || words[0].text != "GPU0") return false;
  return words.size() == 1 || (!class_cell(words[1].text) && !is_p2p(words[1].text));
}

struct Matrix {
  std::vector<std::vector<Word>> rows;  // of GPUs: the cells of GPU columns
  std::vector<std::optional<int>> numa;
  Word header;
  int line = 0;
};

class Reader {
 public:
  Reader(const std::string& path, std::string_view text, Diagnostics& errors)
      : path_(path), text_(text), lines_(text_lines(text)), errors_(errors) {}

  TopologyFacts read() {
    TopologyFacts out;
    out.path = path_;
    out.form = "nvidia-smi topo";
    for (at_ = 0; at_ < lines_.size();) {
      const auto words = words_of(lines_[at_]);
      if (!is_header(words)) {
        ++at_;
        continue;
      }
      const bool asks_else = of_another_question();
      if (auto matrix = read_matrix(words); matrix && !asks_else) take(*matrix, out);
    }
    return out;
  }

 private:
  Location place(std::string_view part) const { return place_in(path_, text_, part); }

  // "nvidia-smi topo -p2p a" stands at most a few lines above its answer in a paste.
  bool of_another_question() const {
    for (std::size_t back = 1; back <= 4 && back <= at_; ++back) {
      const auto words = words_of(lines_[at_ - back]);
      for (std::size_t i = 0; i + 1 < words.size(); ++i)
        if (words[i].text == "-p2p")
          return words[i + 1].text == "n" || words[i + 1].text == "a" || words[i + 1].text == "p";
    }
    return false;
  }

  std::optional<Matrix> read_matrix(const std::vector<Word>& header) {
    Matrix out;
    out.header = header[0];
    std::size_t columns = 0, gpus = 0;
    while (columns < header.size() && header[columns].text != "CPU") {
      if (number_after(header[columns].text, "GPU") == static_cast<int>(gpus)) ++gpus;
      ++columns;
    }
    const bool has_cpu = columns < header.size();
    bool has_numa = false;
    for (std::size_t i = columns; i < header.size(); ++i)
      has_numa |= header[i].text == "NUMA" && (i == 0 || header[i - 1].text != "GPU");
    std::size_t named = 0;
    for (std::size_t i = 0; i < columns; ++i)
      named += number_after(header[i].text, "GPU").has_value();
    ++at_;
    if (named != gpus || gpus > static_cast<std::size_t>(box_gpus_max)) {
      errors_.error(place(header[0].text), "the GPUs of this header do not count up from GPU0",
                    "paste the output of nvidia-smi topo as it is");
      return {};
    }
    bool good = true;
    for (; at_ < lines_.size() && out.rows.size() < gpus; ++at_) {
      const auto words = words_of(lines_[at_]);
      if (words.empty()) continue;
      const auto number = number_after(words[0].text, "GPU");
      if (!number || is_header(words)) break;
      if (*number != static_cast<int>(out.rows.size())) {
        errors_.error(place(words[0].text), fmt::format("row '{}' stands where GPU{} should",
                                                        printable(words[0].text), out.rows.size()));
        good = false;
        break;
      }
      if (words.size() < columns + 1) {
        errors_.error(
            place(words.back().text),
            fmt::format("row GPU{} ends after {} of {} cells", *number, words.size() - 1, columns),
            "the output was cut off");
        good = false;
        out.rows.emplace_back();
        out.numa.emplace_back();
        continue;
      }
      auto& row = out.rows.emplace_back();
      for (std::size_t i = 0; i < columns; ++i)
        if (number_after(header[i].text, "GPU")) row.push_back(words[i + 1]);
      // After the cells: CPU affinity, NUMA affinity, the GPU's own NUMA id.
      const bool says = has_cpu && has_numa && words.size() >= columns + 3;
      out.numa.push_back(says ? number_after(words[columns + 2].text, "") : std::nullopt);
    }
    if (good && out.rows.size() < gpus) {
      errors_.error(place(header[0].text),
                    fmt::format("{} of {} rows of GPUs are missing", gpus - out.rows.size(), gpus),
                    "the output was cut off");
      good = false;
    }
    if (!good) return {};
    return out;
  }

  void take(const Matrix& matrix, TopologyFacts& out) {
    std::size_t p2p = 0, classes = 0;
    for (std::size_t i = 0; i < matrix.rows.size(); ++i)
      for (std::size_t j = 0; j < matrix.rows.size(); ++j) {
        if (i == j) continue;
        p2p += is_p2p(matrix.rows[i][j].text);
        classes += class_cell(matrix.rows[i][j].text).has_value();
      }
    if (p2p > classes)
      take_p2p(matrix, out);
    else
      take_classes(matrix, out);
  }

  void take_p2p(const Matrix& matrix, TopologyFacts& out) {
    const auto n = matrix.rows.size();
    P2pMatrix cells(n, std::vector<std::optional<bool>>(n));
    bool good = true;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const auto word = matrix.rows[i][j].text;
        if (i == j && word == "X") continue;
        if (i == j || !is_p2p(word)) {
          bad_cell(matrix.rows[i][j], i, j, p2p_words);
          good = false;
        } else if (word != "U") {
          cells[i][j] = word == "OK";
        }
      }
    if (good) out.p2p.push_back(std::move(cells));
  }

  void take_classes(const Matrix& matrix, TopologyFacts& out) {
    const auto n = matrix.rows.size();
    ClassMatrix m;
    m.cells.assign(n, std::vector<PathClass>(n, PathClass::self));
    m.nvlinks.assign(n, std::vector<int>(n, 0));
    m.numa = matrix.numa;
    bool good = true;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const auto cell = class_cell(matrix.rows[i][j].text);
        if (!cell || (i == j) != (cell->path == PathClass::self)) {
          bad_cell(matrix.rows[i][j], i, j, class_words);
          good = false;
          continue;
        }
        m.cells[i][j] = cell->path;
        m.nvlinks[i][j] = cell->nvlinks;
        if (j < i && good && (m.cells[j][i] != cell->path || m.nvlinks[j][i] != cell->nvlinks)) {
          errors_.error(place(matrix.rows[i][j].text),
                        fmt::format("GPU{} to GPU{} is {}, but GPU{} to GPU{} is {}", i, j,
                                    matrix.rows[i][j].text, j, i, matrix.rows[j][i].text),
                        "the matrix must be the same both ways");
          good = false;
        }
      }
    if (!good) return;
    if (out.classes) {
      if (out.classes->cells != m.cells)
        errors_.error(place(matrix.header.text), "a second matrix of classes says something else",
                      "give the files of one box");
      return;
    }
    out.classes = std::move(m);
  }

  void bad_cell(const Word& word, std::size_t i, std::size_t j,
                const std::vector<std::string>& known) {
    errors_.error(
        place(word.text),
        i == j ? fmt::format("GPU{} to itself must be X, not '{}'", i, printable(word.text))
               : fmt::format("'{}' is no path between GPU{} and GPU{}", printable(word.text), i, j),
        i == j ? "" : suggestion(printable(word.text), known));
  }

  const std::string& path_;
  std::string_view text_;
  std::vector<std::string_view> lines_;
  Diagnostics& errors_;
  std::size_t at_ = 0;
};

bool recognises(std::string_view text) {
  for (const auto line : text_lines(text))
    if (line.find("GPU0") != std::string_view::npos && is_header(words_of(line))) return true;
  return false;
}

const Registered<TopologyForm> me(
    "nvidia-smi topo", {"the matrices of nvidia-smi topo -m and topo -p2p r|w", recognises,
                        [](const std::string& path, std::string_view text, Diagnostics& errors) {
                          return Reader(path, text, errors).read();
                        }});

}  // namespace
