# The files that reports carry, compiled into tessera_planner.
find_file(TESSERA_CHART_LIBRARY NAMES chart.min.js chart.umd.js Chart.min.js
          PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist
          DOC "Chart.js, from Debian's libjs-chart.js; reports draw plain SVG without it" NO_DEFAULT_PATH)
set(chart_library)
if(TESSERA_CHART_LIBRARY)
  set(chart_library ${TESSERA_CHART_LIBRARY})
else()
  message(STATUS "No Chart.js (Debian: libjs-chart.js): reports will hold static SVG charts")
endif()

set(page ${CMAKE_CURRENT_LIST_DIR}/page)
set(page_scripts)
foreach(name IN ITEMS theme tables filters plot_style plots timeline start)
  list(APPEND page_scripts ${page}/${name}.js)
endforeach()
list(JOIN page_scripts "," page_script)

set(page_assets ${PROJECT_BINARY_DIR}/planner/page_assets.cc)
add_custom_command(
  OUTPUT ${page_assets}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page_assets} -DINCLUDE=planner/report/page_assets.h
          -DFUNCTIONS=PageTemplate,PageStyle,PageScript,ChartLibrary
          -DPageTemplate=${page}/page.html -DPageStyle=${page}/page.css
          -DPageScript=${page_script} -DChartLibrary=${chart_library}
          -P ${CMAKE_CURRENT_LIST_DIR}/embed_files.cmake
  DEPENDS ${page}/page.html ${page}/page.css ${page_scripts} ${chart_library}
          ${CMAKE_CURRENT_LIST_DIR}/embed_files.cmake
  COMMENT "Embedding the files of reports"
  VERBATIM)
target_sources(tessera_planner PRIVATE ${page_assets})
