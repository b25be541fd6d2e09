# Sets TESSERA_HAS_CUDNN: whether attention by cuDNN is built, which takes the headers of cuDNN 9 and of
# its C++ frontend (github.com/NVIDIA/cudnn-frontend, 1.11 or later). The library itself is opened at
# run time where it is there.
option(TESSERA_CUDNN "Attention by cuDNN, where its headers are found" ON)
set(TESSERA_HAS_CUDNN OFF)
if(NOT TESSERA_CUDNN)
  message(STATUS "Attention by kernels of our own (TESSERA_CUDNN=OFF)")
  return()
endif()
find_path(TESSERA_CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(TESSERA_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
                                                                    ${TESSERA_CUDNN_INCLUDE_DIR})
if(NOT TESSERA_CUDNN_INCLUDE_DIR OR NOT TESSERA_CUDNN_FRONTEND_INCLUDE_DIR)
  message(STATUS "Attention by kernels of our own: no cudnn_version.h or no cudnn_frontend.h found "
                 "(TESSERA_CUDNN_INCLUDE_DIR, TESSERA_CUDNN_FRONTEND_INCLUDE_DIR)")
  return()
endif()
set(TESSERA_HAS_CUDNN ON)
message(STATUS "Attention by cuDNN where its library is there at run time "
               "(${TESSERA_CUDNN_FRONTEND_INCLUDE_DIR})")
