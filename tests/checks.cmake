# The checks of the source tree itself, and the tests of these checks: label `style`.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(WARNING "No Python 3 found: the checks of the source tree are left out of the tests")
  return()
endif()

function(tessera_check name)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/${name}.py ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS style TIMEOUT 300 SKIP_RETURN_CODE 77
                       ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endfunction()

tessera_check(check_layering)
tessera_check(check_words)
tessera_check(check_sizes)
tessera_check(check_formatting)
tessera_check(derive_clusters --check)
tessera_check(check_tests_built ${PROJECT_BINARY_DIR})
tessera_check(check_headers ${PROJECT_BINARY_DIR})
# Under TESSERA_UNITY it compiles most headers, which takes more than five minutes beside other tests.
set_tests_properties(check_headers PROPERTIES TIMEOUT 1200)

add_test(NAME scripts COMMAND ${Python3_EXECUTABLE} -m unittest discover
                              -s ${PROJECT_SOURCE_DIR}/tests/scripts -p *_test.py)
set_tests_properties(scripts PROPERTIES LABELS style TIMEOUT 120 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

# Reports as a browser shows them.
add_test(NAME report COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/report/what_if_page_test.py
                             ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(report PROPERTIES LABELS integration TIMEOUT 600 SKIP_RETURN_CODE 77
                     ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
