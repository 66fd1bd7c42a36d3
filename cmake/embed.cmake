# cmake -DROOT=catalog -DFILES=a;b -DOUT=x.cc -P embed.cmake: the files as string literals behind
# heddle::catalog::embedded_files() (src/catalog/embedded.h).
set(text "// Generated from catalog/ by cmake/embed.cmake.\n#include \"catalog/embedded.h\"\n\n#include <array>\n\n")
# Both compilers know this name; the limit it warns of is the least that a standard asks for.
string(APPEND text "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\nnamespace heddle::catalog {\nnamespace {\n\n")
list(LENGTH FILES count)
string(APPEND text "constexpr std::array<EmbeddedFile, ${count}> kFiles = {{\n")
foreach(file IN LISTS FILES)
  # As hex and back: file(READ) as text would eat brackets, backslashes and semicolons.
  file(READ ${ROOT}/${file} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR size "${length} / 2")
  string(REGEX REPLACE "(................................................................)" "\\1\"\n\"" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" hex "${hex}")
  string(APPEND text "{\"${file}\", {\"${hex}\", ${size}}},\n")
endforeach()
string(APPEND text "}};\n\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() {\n  return kFiles;\n}\n\n}  // namespace heddle::catalog\n")
file(WRITE ${OUT} "${text}")
