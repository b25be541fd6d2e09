# Writes a C++ source file that holds text files as functions, for programs that must find them
# without a path:
#   cmake -DOUTPUT=out.cc -DINCLUDE=folder/assets.h -DFUNCTIONS=PageStyle,PageScript
#         -DPageStyle=page.css -DPageScript=a.js,b.js -P embed_files.cmake
# A function returns its files one after the other; one without files returns an empty text.
set(text "#include \"${INCLUDE}\"\n\nnamespace tessera::planner {\nnamespace {\n\n")
set(definitions)
string(REPLACE "," ";" functions "${FUNCTIONS}")
foreach(function IN LISTS functions)
  string(REPLACE "," ";" files "${${function}}")
  set(bytes)
  foreach(file IN LISTS files)
    file(READ "${file}" more HEX)
    string(APPEND bytes "${more}")
  endforeach()
  string(LENGTH "${bytes}" num_digits)
  math(EXPR num_bytes "${num_digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  # Lines that tools can show: 4 characters stand for a byte.
  string(REGEX REPLACE "(................................................................)" "\\1\"\n    \""
         bytes "${bytes}")
  string(APPEND text "constexpr char k${function}[] =\n    \"${bytes}\";\n\n")
  string(APPEND definitions
         "std::string_view ${function}() { return {k${function}, ${num_bytes}}; }\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}}  // namespace\n\n${definitions}\n}  // namespace tessera::planner\n")
