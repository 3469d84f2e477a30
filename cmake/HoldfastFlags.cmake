# Language, warnings, hardening and sanitizers: the same for every target.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# An assertion that holds in the tests only protects nobody: they stay on.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
if(NOT HOLDFAST_SANITIZE STREQUAL "")
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1") # a report needs lines; -O2 takes half again as long to compile
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2")

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wshadow
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
                    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
if(HOLDFAST_WERROR)
    add_compile_options(-Werror)
endif()
# The C and the C++ compiler may be of two makes.
add_compile_options("$<$<COMPILE_LANG_AND_ID:C,Clang,AppleClang>:-Wthread-safety;-Werror=thread-safety>"
                    "$<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wthread-safety;-Werror=thread-safety>")

if(HOLDFAST_SANITIZE STREQUAL "address")
    # ASan stops at both of the last, too; to look for them in every line takes a seventh of the time to compile.
    set(HOLDFAST_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=null,object-size)
elseif(HOLDFAST_SANITIZE STREQUAL "thread")
    set(HOLDFAST_SANITIZE_FLAGS -fsanitize=thread)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # gcc warns of every fence. What the fences order is atomic here, so nothing is misread as a race.
        add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wno-tsan>)
    endif()
elseif(NOT HOLDFAST_SANITIZE STREQUAL "")
    message(FATAL_ERROR "HOLDFAST_SANITIZE is '${HOLDFAST_SANITIZE}'; it must be address, thread or empty")
endif()

# libFuzzer: every object tells where it has been; tests/fuzz has the targets.
if(HOLDFAST_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "HOLDFAST_FUZZ needs clang: -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++")
    endif()
    list(APPEND HOLDFAST_SANITIZE_FLAGS -fsanitize=fuzzer-no-link)
endif()
if(HOLDFAST_COVERAGE)
    list(APPEND HOLDFAST_SANITIZE_FLAGS -fprofile-instr-generate -fcoverage-mapping)
endif()

if(HOLDFAST_SANITIZE_FLAGS)
    add_compile_options(${HOLDFAST_SANITIZE_FLAGS} -fno-omit-frame-pointer)
    add_compile_definitions(HOLDFAST_INSTRUMENTED) # what looks on needs system calls of its own
    add_link_options(${HOLDFAST_SANITIZE_FLAGS})
else()
    add_compile_options(-fstack-protector-strong $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
                        $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
    add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,defs)
endif()

include(CheckPIESupported)
check_pie_supported()
