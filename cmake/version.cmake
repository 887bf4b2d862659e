# Writes OUTPUT, the definitions of sim/base/version.hpp, from VERSION and the commit of SOURCE.
# Run as a script at every build; leaves OUTPUT alone when nothing changed.

set(GIT_COMMIT unknown)
find_program(GIT git)
# Only our own repository counts, not one that happens to enclose an unpacked archive.
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} rev-parse --short=12 HEAD
                  WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE result)
  if(result EQUAL 0)
    set(GIT_COMMIT ${commit})
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.cpp.in ${OUTPUT} @ONLY)
