"""System call numbers that the filter of `core.sandbox.seccomp` speaks about, for x86-64 and aarch64.

Source: the kernel's `arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h`. None: that
architecture has no such call. From 424 on the numbers are the same everywhere.
"""

from __future__ import annotations

ABSENT = None
Numbers = dict[str, tuple[int | None, int | None]]

# What a program could use to reach another program, machine or user.
REACH: Numbers = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "recvmmsg": (299, 243),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "inotify_init": (253, ABSENT),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
}

# What a program could use to outlive its process or to escape the group that is killed.
OUTLIVE: Numbers = {
    "fork": (57, ABSENT),
    "vfork": (58, ABSENT),
    "setsid": (112, 157),
    "setpgid": (109, 154),
}

# Memory that no per-process limit counts: System V and POSIX objects outlive the process.
HOARD: Numbers = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_notify": (244, 184),
}

# The large and rarely used parts of the kernel where its own bugs live, and the administration of the machine.
KERNEL: Numbers = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "personality": (135, 92),
    "iopl": (172, ABSENT),
    "ioperm": (173, ABSENT),
    "modify_ldt": (154, ABSENT),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "sync": (162, 81),
    "syncfs": (306, 267),
}

# Replacing the process image: only where nothing is executed after the filter is on.
EXEC: Numbers = {"execve": (59, 221), "execveat": (322, 281)}

# Metadata of files, which landlock does not guard: a program of the same user could lock the app out of its own files.
METADATA: Numbers = {
    "chmod": (90, ABSENT),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, ABSENT),
    "fchown": (93, 55),
    "lchown": (94, ABSENT),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "utime": (132, ABSENT),
    "utimes": (235, ABSENT),
    "futimesat": (261, ABSENT),
    "utimensat": (280, 88),
}

# Judged by an argument, or answered in a special way: see core/sandbox/seccomp.py.
SPECIAL: Numbers = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "prlimit64": (302, 261),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "prctl": (157, 167),
    "truncate": (76, 45),
}

# The newest call known to this list (futex_requeue). Anything above is answered "no such call".
NEWEST = 456
