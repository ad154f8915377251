# `cmake --install`, and the Debian package that `script/package` makes of it.
include(GNUInstallDirs)
install(TARGETS anabranch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Made by the program itself.
set(generated ${CMAKE_BINARY_DIR}/generated)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_command(
    OUTPUT ${generated}/anabranch.1.gz
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/make_shell_files.py ${generated}
            ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:anabranch>
    DEPENDS anabranch ${CMAKE_SOURCE_DIR}/tools/make_shell_files.py
    VERBATIM)
  add_custom_target(shell_files DEPENDS ${generated}/anabranch.1.gz)
  install(FILES ${generated}/anabranch.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(FILES ${generated}/anabranch DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
  install(FILES ${generated}/_anabranch DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions OPTIONAL)
  install(FILES ${generated}/anabranch.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
endif()

# Units, with the installed program's path.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  foreach(kind system user)
    set(source ${CMAKE_SOURCE_DIR}/packaging/systemd)
    if(kind STREQUAL user)
      set(source ${source}/user)
    endif()
    file(READ ${source}/anabranch.service unit)
    string(REGEX REPLACE "ExecStart=[^ ]+" "ExecStart=${CMAKE_INSTALL_FULL_BINDIR}/anabranch" unit "${unit}")
    file(WRITE ${generated}/${kind}/anabranch.service "${unit}")
    install(FILES ${generated}/${kind}/anabranch.service DESTINATION lib/systemd/${kind})
  endforeach()
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/systemd/anabranch.service.d/nvidia.conf
          DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME anabranch)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Anabranch maintainers <maintainers@anabranch.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference engine and server for hybrid language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Runs Qwen3.5-class models (Gated DeltaNet and attention) and transformers on
the processor or an NVIDIA GPU, with OpenAI's and Anthropic's APIs, exact
speculative decoding and states that survive restarts.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "ca-certificates")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
install(FILES ${CMAKE_SOURCE_DIR}/packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${generated}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
