# Run by `cmake --install`: the units for this prefix, and the configuration, which is the administrator's once it is there.
if(NOT IS_ABSOLUTE "${sbindir}")
    set(sbindir "${CMAKE_INSTALL_PREFIX}/${sbindir}")
endif()
if(NOT IS_ABSOLUTE "${sysconfdir}")
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr") # the system's own
        set(sysconfdir "/${sysconfdir}")
    else()
        set(sysconfdir "${CMAKE_INSTALL_PREFIX}/${sysconfdir}")
    endif()
endif()

if(NOT IS_ABSOLUTE "${bindir}")
    set(bindir "${CMAKE_INSTALL_PREFIX}/${bindir}")
endif()

# An older systemd hears of a refused reload by the command's exit code.
if(systemd_version VERSION_LESS 253)
    set(type "notify")
    set(reload "ExecReload=${bindir}/holdfast reload --agent %t/holdfast/default/sock")
else()
    set(type "notify-reload")
    set(reload "# systemctl reload sends SIGHUP and waits; holdfast reload tells the result, too.")
endif()

foreach(unit holdfastd holdfastd-user)
    configure_file("${source}/${unit}.service.in" "${made}/${unit}.service" @ONLY)
endforeach()
file(INSTALL "${made}/holdfastd.service" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
file(INSTALL "${made}/holdfastd-user.service" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/user"
     RENAME holdfastd.service)

set(conf "$ENV{DESTDIR}${sysconfdir}/holdfast/holdfast.conf")
set(name holdfast.conf)
if(EXISTS "${conf}")
    file(SHA256 "${conf}" there)
    file(SHA256 "${source}/holdfast.conf" ours)
    if(NOT there STREQUAL ours)
        set(name holdfast.conf.new)
        message(STATUS "Kept: ${conf}; compare it with ${name} beside it")
    endif()
endif()
# It may have passwords. The agent's account reads it as its group, once there is one (holdfast.sysusers).
file(INSTALL "${source}/holdfast.conf" DESTINATION "${sysconfdir}/holdfast" RENAME ${name}
     PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ)
if("$ENV{DESTDIR}" STREQUAL "")
    execute_process(COMMAND chgrp holdfast "${sysconfdir}/holdfast/${name}" OUTPUT_QUIET ERROR_QUIET)
endif()
