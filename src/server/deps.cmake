# Boost.Beast and Asio (headers only) are included by http_server.cc alone.
find_package(Boost 1.81 REQUIRED)
target_link_libraries(anabranch_server PRIVATE Boost::headers)
target_compile_definitions(anabranch_server PRIVATE ANABRANCH_VERSION="${PROJECT_VERSION}")
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/server/http_server.cc TARGET_DIRECTORY anabranch_server
                            PROPERTIES COMPILE_DEFINITIONS "BOOST_ASIO_NO_DEPRECATED;BOOST_ERROR_CODE_HEADER_ONLY")
# Clang 14's AddressSanitizer cannot emit this file's coroutines ("Cannot represent a difference across sections").
if(ANABRANCH_FUZZ)
  set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/server/http_server.cc TARGET_DIRECTORY anabranch_server
                              PROPERTIES COMPILE_OPTIONS -fno-sanitize=all SKIP_PRECOMPILE_HEADERS ON)
endif()
# turn_memory.cc
find_package(SQLiteCpp REQUIRED)
target_link_libraries(anabranch_server PRIVATE SQLiteCpp)
