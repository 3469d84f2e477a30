# hf_sources(VAR PATTERN...): the files of the calling folder that match; a new file joins by itself.
macro(hf_sources var)
    set(${var} "")
    foreach(pattern ${ARGN})
        file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${pattern})
        list(APPEND ${var} ${found})
    endforeach()
endmacro()

# hf_library(NAME SOURCE...): a static library, or an empty interface while there are no sources.
function(hf_library name)
    if(ARGN)
        add_library(${name} STATIC ${ARGN})
    else()
        add_library(${name} INTERFACE)
    endif()
endfunction()

# hf_has_main(FILE VAR): whether a C file is a program of its own.
function(hf_has_main file var)
    file(STRINGS ${file} lines REGEX "^int main\\(")
    if(lines)
        set(${var} ON PARENT_SCOPE)
    else()
        set(${var} OFF PARENT_SCOPE)
    endif()
endfunction()
