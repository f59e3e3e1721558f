# SPDX-License-Identifier: Apache-2.0
# Finds the GPU languages, compiles the CUDA kernels and embeds both kernel trees.
#   ANYDNN_HAVE_CUDA, ANYDNN_HAVE_OPENCL   what goes into this build
#   ANYDNN_CUDA_OBJECTS, ANYDNN_OPENCL_OBJECTS   generated C files: one array for each stem, and their index

set(generated ${PROJECT_BINARY_DIR}/generated)
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
add_executable(anydnn_embed ${PROJECT_SOURCE_DIR}/common/cmake/embed.c)
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

file(GLOB ANYDNN_PARTS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/common/index/*.h ${PROJECT_SOURCE_DIR}/common/engines/*.h)

# Code options of one stem. Generic stems: machine code for every architecture asked for, and compute_75 PTX. A stem whose
# kernels exist for some architectures alone names them in its head, in a line "// architectures: 90a 100a": it gets
# machine code for those of them whose number is asked for, no PTX, and is left out where that is none.
function(anydnn_cuda_codes file output)
  set(codes)
  file(STRINGS ${file} line REGEX "^// architectures:" LIMIT_COUNT 1)
  if(line)
    string(REGEX MATCHALL "[0-9]+[a-z]*" archs "${line}")
  else()
    set(archs ${ANYDNN_CUDA_ARCHITECTURES})
    set(codes -gencode arch=compute_75,code=compute_75)
  endif()
  foreach(arch ${archs})
    string(REGEX MATCH "^[0-9]+" number ${arch})
    if(number IN_LIST ANYDNN_CUDA_ARCHITECTURES AND "sm_${number}" IN_LIST ANYDNN_NVCC_CODES)
      list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
    endif()
  endforeach()
  set(${output} ${codes} PARENT_SCOPE)
endfunction()

# Compiles one stem and embeds it; adds its name to `stems`, and its rows to `kernels`.
macro(anydnn_cuda_stem file)
  get_filename_component(stem ${file} NAME_WE)
  set(rows ${PROJECT_SOURCE_DIR}/common/engines/${stem}.variants)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  anydnn_cuda_codes(${file} codes)
  if(NOT EXISTS ${rows})
    message(SEND_ERROR "kernels_cuda/${stem}.cu has no list of variants: common/engines/${stem}.variants is missing")
  elseif(codes)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${rows})
    execute_process(COMMAND ${CMAKE_C_COMPILER} -E -P -x c "-DADN_VARIANT(...)=adn_row" "-DADN_VARIANT_CL(...)=" ${rows}
      OUTPUT_VARIABLE variants)
    string(REGEX MATCHALL "adn_row" variants "${variants}")
    list(LENGTH variants count)
    math(EXPR kernels "${kernels} + ${count}")
    list(APPEND stems ${stem})
    # nvcc writes what the file includes, so that a change compiles only the stems that see it.
    add_custom_command(OUTPUT ${generated}/${stem}.fatbin
      COMMAND ${ANYDNN_NVCC} ${flags} ${codes} -MD -MT ${generated}/${stem}.fatbin -MF ${generated}/${stem}.d
        -fatbin -o ${generated}/${stem}.fatbin ${file}
      DEPENDS ${file} ${rows} DEPFILE ${generated}/${stem}.d COMMENT "nvcc ${stem}.cu (${count} kernels)" VERBATIM)
    add_custom_command(OUTPUT ${generated}/cuda_${stem}.c
      COMMAND anydnn_embed adn_cuda_${stem} ${generated}/${stem}.fatbin ${generated}/cuda_${stem}.c
      DEPENDS anydnn_embed ${generated}/${stem}.fatbin VERBATIM)
    list(APPEND ANYDNN_CUDA_OBJECTS ${generated}/cuda_${stem}.c)
  endif()
endmacro()

if(ANYDNN_HAVE_CUDA)
  set(flags -O3 -std=c++17 --expt-relaxed-constexpr -Xfatbin=-compress-all)
  execute_process(COMMAND ${ANYDNN_NVCC} --list-gpu-code OUTPUT_VARIABLE ANYDNN_NVCC_CODES OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" ANYDNN_NVCC_CODES "${ANYDNN_NVCC_CODES}")
  foreach(arch ${ANYDNN_CUDA_ARCHITECTURES})
    if(NOT "sm_${arch}" IN_LIST ANYDNN_NVCC_CODES)
      message(STATUS "anydnn: this nvcc makes no code for sm_${arch}: left out")
    endif()
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels_cuda/*.cu)
  set(stems)
  set(kernels 0)
  foreach(file ${files})
    anydnn_cuda_stem(${file})
  endforeach()
  list(LENGTH stems count)
  message(STATUS "anydnn: ${kernels} CUDA kernels in ${count} stems")
  anydnn_index(cuda "${stems}" ${generated}/cuda_index.c)
  list(APPEND ANYDNN_CUDA_OBJECTS ${generated}/cuda_index.c)
endif()

if(ANYDNN_HAVE_OPENCL)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels_cl/*.cl)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels_cl/*.clh)
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
