# Finds xgrammar in .deps/xgrammar, where script/bootstrap builds it, or wherever XGRAMMAR_DIR points.
if(NOT XGRAMMAR_DIR)
  set(XGRAMMAR_DIR ${CMAKE_SOURCE_DIR}/.deps/xgrammar)
endif()
if(NOT EXISTS ${XGRAMMAR_DIR}/lib/libxgrammar.a)
  message(FATAL_ERROR "xgrammar was not found. Run script/bootstrap first (or pass -DXGRAMMAR_DIR=...).")
endif()
add_library(xgrammar STATIC IMPORTED)
set_target_properties(xgrammar PROPERTIES IMPORTED_LOCATION ${XGRAMMAR_DIR}/lib/libxgrammar.a
                      INTERFACE_INCLUDE_DIRECTORIES ${XGRAMMAR_DIR}/include
                      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${XGRAMMAR_DIR}/include)
