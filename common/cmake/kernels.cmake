# SPDX-License-Identifier: Apache-2.0
# Finds the GPU languages, compiles the CUDA kernels and embeds both kernel trees.
#   ANYDNN_HAVE_CUDA, ANYDNN_HAVE_OPENCL   what goes into this build
#   ANYDNN_CUDA_OBJECTS, ANYDNN_OPENCL_OBJECTS   generated C files: one array for each stem, and their index

set(generated ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated})

set(ANYDNN_HAVE_OPENCL ON)
if(ANYDNN_OPENCL STREQUAL "OFF")
  set(ANYDNN_HAVE_OPENCL OFF)
endif()

set(ANYDNN_HAVE_CUDA OFF)
if(NOT ANYDNN_CUDA STREQUAL "OFF")
  find_program(ANYDNN_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin ${CUDA_HOME}/bin /usr/local/cuda/bin /opt/cuda/bin)
  if(ANYDNN_NVCC)
    set(ANYDNN_HAVE_CUDA ON)
  elseif(ANYDNN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ANYDNN_CUDA=ON, but nvcc is not on the PATH, under CUDA_HOME or /usr/local/cuda")
  endif()
endif()
message(STATUS "anydnn: CUDA ${ANYDNN_HAVE_CUDA}, OpenCL ${ANYDNN_HAVE_OPENCL}")

# Host program that turns a file into a C array; with --inline it replaces quoted includes by their text.
add_executable(anydnn_embed ${CMAKE_SOURCE_DIR}/common/cmake/embed.c)
set_target_properties(anydnn_embed PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${generated})

# Writes <language>_index.c: the table {stem, bytes, size} that backends/<language> declares.
function(anydnn_index language stems output)
  set(text "/* generated */\n#include \"common/embedded.h\"\n")
  foreach(stem ${stems})
    string(APPEND text "extern const unsigned char adn_${language}_${stem}[];\nextern const unsigned long adn_${language}_${stem}_size;\n")
  endforeach()
  string(APPEND text "const struct adn_embedded adn_${language}_stems[] = {\n")
  foreach(stem ${stems})
    string(APPEND text "    { \"${stem}\", adn_${language}_${stem}, &adn_${language}_${stem}_size },\n")
  endforeach()
  string(APPEND text "    { 0, 0, 0 }\n};\n")
  file(GENERATE OUTPUT ${output} CONTENT "${text}")
endfunction()

file(GLOB ANYDNN_PARTS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/common/index/*.h ${CMAKE_SOURCE_DIR}/common/engines/*.h)

if(ANYDNN_HAVE_CUDA)
  set(flags -O3 -std=c++17 --expt-relaxed-constexpr -lineinfo -Xfatbin=-compress-all
    -gencode arch=compute_75,code=compute_75)
  foreach(arch ${ANYDNN_CUDA_ARCHITECTURES})
    list(APPEND flags -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels_cuda/*.cu)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels_cuda/*.cuh)
  set(stems)
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    list(APPEND stems ${stem})
    add_custom_command(OUTPUT ${generated}/${stem}.fatbin
      COMMAND ${ANYDNN_NVCC} ${flags} -fatbin -o ${generated}/${stem}.fatbin ${file}
      DEPENDS ${file} ${headers} ${ANYDNN_PARTS} ${CMAKE_SOURCE_DIR}/common/engines/${stem}.variants
      COMMENT "nvcc ${stem}.cu" VERBATIM)
    add_custom_command(OUTPUT ${generated}/cuda_${stem}.c
      COMMAND anydnn_embed adn_cuda_${stem} ${generated}/${stem}.fatbin ${generated}/cuda_${stem}.c
      DEPENDS anydnn_embed ${generated}/${stem}.fatbin VERBATIM)
    list(APPEND ANYDNN_CUDA_OBJECTS ${generated}/cuda_${stem}.c)
  endforeach()
  anydnn_index(cuda "${stems}" ${generated}/cuda_index.c)
  list(APPEND ANYDNN_CUDA_OBJECTS ${generated}/cuda_index.c)
endif()

if(ANYDNN_HAVE_OPENCL)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels_cl/*.cl)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels_cl/*.clh)
  set(stems)
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    list(APPEND stems ${stem})
    add_custom_command(OUTPUT ${generated}/opencl_${stem}.c
      COMMAND anydnn_embed --inline adn_opencl_${stem} ${file} ${generated}/opencl_${stem}.c
      DEPENDS anydnn_embed ${file} ${headers} ${ANYDNN_PARTS} VERBATIM)
    list(APPEND ANYDNN_OPENCL_OBJECTS ${generated}/opencl_${stem}.c)
  endforeach()
  anydnn_index(opencl "${stems}" ${generated}/opencl_index.c)
  list(APPEND ANYDNN_OPENCL_OBJECTS ${generated}/opencl_index.c)
endif()
