# hf_simulator(NAME AGENT CORE SHM TOOLS): the simulator, linked with these builds of the product's libraries.
pkg_check_modules(LUA51 REQUIRED IMPORTED_TARGET GLOBAL lua5.1)

# What the product asks of the kernel and of libc is answered by tests/sim/sim_os.c and sim_heap.c; the others are
# places where the simulator looks, or takes the CPU away.
set(HF_SIM_WRAPPED
    malloc calloc realloc free slab_take slab_give
    open open64 shm_open shm_unlink unlink rename access close fstat fstat64 lstat posix_fallocate posix_fallocate64 ftruncate
    ftruncate64 pwrite pwrite64 pread pread64 mmap mmap64 munmap fchmod madvise mlock fcntl64 flock gethostname getpid syscall ioctl hf_file_id hf_process_start_time hf_table_create
    getrandom getpeername getnameinfo pthread_create pthread_join pthread_setname_np pthread_sigmask
    hf_slot_publish hf_slot_end hf_slot_withdraw hf_slot_extend journal_put journal_put_identity grant_lease
    refresh_init refresh_take knock_wanted)

set(HF_SIM_DIR ${CMAKE_CURRENT_LIST_DIR})

function(hf_simulator name agent core shm tools)
    file(GLOB sources CONFIGURE_DEPENDS ${HF_SIM_DIR}/*.c)
    add_executable(${name} ${sources})
    foreach(symbol IN LISTS HF_SIM_WRAPPED)
        target_link_options(${name} PRIVATE -Wl,--wrap=${symbol})
    endforeach()
    target_link_libraries(${name} PRIVATE ${agent} ${core} ${tools} holdfast_static ${shm} PkgConfig::LUA51)
endfunction()
