find_package(OpenSSL 3 REQUIRED)  # image_key.cc
target_link_libraries(anabranch_images PRIVATE OpenSSL::Crypto)
