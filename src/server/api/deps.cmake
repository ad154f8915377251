# metrics.cc
find_library(PROMETHEUS_LIBRARY prometheus-cpp-core REQUIRED)
find_package(simdjson REQUIRED)  # request_model.cc: "model" of a body of megabytes
find_package(OpenSSL 3 REQUIRED)  # sealed_text.cc
target_link_libraries(anabranch_server_api PRIVATE ${PROMETHEUS_LIBRARY} simdjson::simdjson OpenSSL::Crypto)
# openapi.json becomes text in the program.
set(openapi_json ${CMAKE_CURRENT_SOURCE_DIR}/server/api/openapi.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${openapi_json})
file(READ ${openapi_json} OPENAPI_JSON)
string(CONFIGURE "${OPENAPI_JSON}" OPENAPI_JSON @ONLY)  # @PROJECT_VERSION@
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/server/api/static_files.cc.in ${CMAKE_BINARY_DIR}/server/static_files.cc @ONLY)
target_sources(anabranch_server_api PRIVATE ${CMAKE_BINARY_DIR}/server/static_files.cc)
target_compile_definitions(anabranch_server_api PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
