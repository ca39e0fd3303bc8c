# SPDX-License-Identifier: Apache-2.0
#
# For DUETIME_STATIC: every library except those of glibc becomes a part of the programs. The folder DUETIME_ARCHIVES has what
# deploy/archives.sh and deploy/rocksdb.sh build.
set(DUETIME_ARCHIVES "${PROJECT_SOURCE_DIR}/build/archives" CACHE PATH "The archives of libraries that Debian has only as shared ones.")
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
list(PREPEND CMAKE_LIBRARY_PATH ${DUETIME_ARCHIVES})
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)
set(CMAKE_SKIP_RPATH ON)
# So that the folder of the build is not in the programs.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
# The map says to deploy/sbom.py which archives are in a program.
add_link_options(-static-libstdc++ -static-libgcc LINKER:-Map=${PROJECT_BINARY_DIR}/$<TARGET_PROPERTY:NAME>.map)

# The targets of Debian's CMake packages name shared libraries: this makes each name the archive beside it.
function(duetime_link_archives)
  get_property(targets DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    foreach(property IN ITEMS IMPORTED_LOCATION IMPORTED_LOCATION_NONE)
      get_target_property(file ${target} ${property})
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${file}")
      if(NOT archive STREQUAL file AND EXISTS ${archive})
        set_target_properties(${target} PROPERTIES ${property} ${archive})
      endif()
    endforeach()
  endforeach()
endfunction()

# Called once all libraries are found. An archive does not name the libraries that it needs in turn. By
# its short name, the linker would take a shared one.
function(duetime_link_statically)
  duetime_link_archives()
  find_library(ROCKSDB_ARCHIVE rocksdb PATHS ${DUETIME_ARCHIVES}/rocksdb NO_DEFAULT_PATH REQUIRED)
  find_library(PROMETHEUS_ARCHIVE prometheus-cpp-core PATHS ${DUETIME_ARCHIVES} NO_DEFAULT_PATH REQUIRED)
  set_target_properties(RocksDB::rocksdb-shared PROPERTIES IMPORTED_LOCATION_NONE ${ROCKSDB_ARCHIVE}
    INTERFACE_LINK_LIBRARIES "-l:libsnappy.a;-l:liblz4.a;-l:libzstd.a;-l:libbz2.a;-l:libz.a")
  set_target_properties(prometheus-cpp::core PROPERTIES IMPORTED_LOCATION_NONE ${PROMETHEUS_ARCHIVE})
  set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES -l:libre2.a)
  target_link_libraries(duetime_httplib INTERFACE -l:libbrotlienc.a -l:libbrotlidec.a -l:libbrotlicommon.a)
  target_link_libraries(duetime_jwt INTERFACE -l:libjansson.a -l:libb64.a OpenSSL::Crypto)
  target_link_libraries(duetime_rdkafka INTERFACE -l:liblz4.a -l:libzstd.a -l:libz.a OpenSSL::SSL OpenSSL::Crypto m)
endfunction()
