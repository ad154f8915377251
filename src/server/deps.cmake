# Boost.Asio (headers only) is included in http/ only; OpenSSL there, too.
find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
target_link_libraries(anabranch_server PRIVATE Boost::headers OpenSSL::SSL OpenSSL::Crypto)
# metrics.cc
find_library(PROMETHEUS_LIBRARY prometheus-cpp-core REQUIRED)
target_link_libraries(anabranch_server PRIVATE ${PROMETHEUS_LIBRARY})
# openapi.json and the page that shows it become text in the program.
set(openapi_json ${CMAKE_CURRENT_SOURCE_DIR}/server/api/openapi.json)
set(docs_html ${CMAKE_CURRENT_SOURCE_DIR}/server/api/docs.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${openapi_json} ${docs_html})
file(READ ${openapi_json} OPENAPI_JSON)
file(READ ${docs_html} DOCS_HTML)
string(CONFIGURE "${OPENAPI_JSON}" OPENAPI_JSON @ONLY)  # @PROJECT_VERSION@
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/server/api/static_files.cc.in ${CMAKE_BINARY_DIR}/server/static_files.cc @ONLY)
target_sources(anabranch_server PRIVATE ${CMAKE_BINARY_DIR}/server/static_files.cc)
target_compile_definitions(anabranch_server PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
set(network_sources admission.cc connection.cc http_server.cc stream.cc tls.cc)
list(TRANSFORM network_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/server/http/)
set_source_files_properties(${network_sources} TARGET_DIRECTORY anabranch_server
                            PROPERTIES COMPILE_DEFINITIONS "BOOST_ASIO_NO_DEPRECATED;BOOST_ERROR_CODE_HEADER_ONLY")
# Clang 14's AddressSanitizer cannot emit coroutines ("Cannot represent a difference across sections").
if(ANABRANCH_FUZZ)
  set_source_files_properties(${network_sources} TARGET_DIRECTORY anabranch_server
                              PROPERTIES COMPILE_OPTIONS -fno-sanitize=all SKIP_PRECOMPILE_HEADERS ON)
endif()
