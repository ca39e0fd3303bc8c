# SPDX-License-Identifier: Apache-2.0
#
# cpack runs this between the installation of the components and their packing.
set(tool ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/cli${CPACK_PACKAGING_INSTALL_PREFIX})
if(EXISTS ${tool} AND NOT EXISTS ${tool}/share/duetime/console/index.html)
  message(FATAL_ERROR "the page of the console is not built: npm ci && npm run build in client/console")
endif()
