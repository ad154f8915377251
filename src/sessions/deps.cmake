find_package(SQLiteCpp REQUIRED)
find_package(OpenSSL 3 REQUIRED)  # consent_store.cc
target_link_libraries(anabranch_sessions PRIVATE SQLiteCpp OpenSSL::Crypto)
