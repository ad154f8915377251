# Boost.Asio (headers only) and OpenSSL are included in http/ only.
find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
target_link_libraries(anabranch_server_http PRIVATE Boost::headers OpenSSL::SSL OpenSSL::Crypto)
set(network_sources admission.cc client_address.cc client_socket.cc connection.cc http_server.cc output_queue.cc request_reader.cc
    stream.cc tls.cc)
list(TRANSFORM network_sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/server/http/)
set_source_files_properties(${network_sources} TARGET_DIRECTORY anabranch_server_http
                            PROPERTIES COMPILE_DEFINITIONS "BOOST_ASIO_NO_DEPRECATED;BOOST_ERROR_CODE_HEADER_ONLY")
