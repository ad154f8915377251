find_package(CURL 7.85 REQUIRED)
target_link_libraries(anabranch_net PRIVATE CURL::libcurl)
