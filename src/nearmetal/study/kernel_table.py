"""The table that kernels are aligned to: network settings with the values that Linux itself gives them. Pure data.

The values are those of Linux 6.12, a kernel with long-term support; `source` is the file there that gives each. What
Linux derives from a machine's memory would differ between a host and its guests, so for those the value of a machine
with plenty of it stands here. A change of any value takes another `version`.

Compared with a fresh namespace on one host with Linux 6.18: all were these but six. In 2025 Linux has raised
tcp_limit_output_bytes to 4194304 (commit 9ea3bfa61b09) and the most of tcp_rmem to 33554432 (commit 572be9bf9d0d).
That host also had 4194304 as rmem_max and wmem_max, 2048 as tcp_max_syn_backlog, and bbr.
"""

from nearmetal.model import AlignedSetting, KernelTable

_TCP = "net/ipv4/tcp_ipv4.c, tcp_sk_init"
_CORE = "net/core/sysctl_net_core.c"


def _in_namespaces(name: str, value: str, why: str, source: str = _TCP) -> AlignedSetting:
    return AlignedSetting(name=name, value=value, scope="namespace", why=why, source=source)


def _in_kernels(name: str, value: str, why: str, source: str = _CORE) -> AlignedSetting:
    return AlignedSetting(name=name, value=value, scope="kernel", why=why, source=source)


TABLE = KernelTable(
    version=1,
    values=(
        _in_namespaces("net.core.somaxconn", "4096", "bounds a listener's queue", "include/linux/socket.h, SOMAXCONN"),
        _in_namespaces("net.ipv4.ip_local_port_range", "32768 60999", "bounds open connections", "net/ipv4/af_inet.c"),
        _in_namespaces("net.ipv4.tcp_autocorking", "1", "gathers small writes into larger segments"),
        _in_namespaces(
            "net.ipv4.tcp_congestion_control",
            "cubic",
            "decides the rate on every path with loss or delay",
            "net/ipv4/Kconfig, DEFAULT_TCP_CONG",
        ),
        _in_namespaces("net.ipv4.tcp_ecn", "2", "lets routers mark packets in place of dropping them"),
        _in_namespaces("net.ipv4.tcp_fastopen", "1", "saves a round trip of each connection"),
        _in_namespaces("net.ipv4.tcp_fin_timeout", "60", "holds ports of closed connections"),
        _in_namespaces("net.ipv4.tcp_limit_output_bytes", "1048576", "bounds what a socket has in queues below it"),
        _in_namespaces(
            "net.ipv4.tcp_max_syn_backlog",
            "4096",
            "bounds connections that are being opened; by memory in Linux",
            "net/ipv4/tcp_ipv4.c, tcp_set_hashinfo",
        ),
        _in_namespaces("net.ipv4.tcp_no_metrics_save", "0", "lets a connection begin as the one before ended"),
        _in_namespaces("net.ipv4.tcp_notsent_lowat", "4294967295", "bounds what waits unsent in a socket"),
        _in_namespaces(
            "net.ipv4.tcp_rmem",
            "4096 131072 6291456",
            "bounds the receive window; by memory in Linux",
            "net/ipv4/tcp.c, tcp_init",
        ),
        _in_namespaces("net.ipv4.tcp_sack", "1", "tells the sender what arrived after a gap"),
        _in_namespaces("net.ipv4.tcp_slow_start_after_idle", "1", "makes a connection slow again after a pause"),
        _in_namespaces("net.ipv4.tcp_syncookies", "1", "answers beyond a full queue of openings"),
        _in_namespaces("net.ipv4.tcp_timestamps", "1", "takes 12 bytes of each segment, and measures round trips"),
        _in_namespaces("net.ipv4.tcp_tw_reuse", "2", "lets ports of closed connections be used again"),
        _in_namespaces("net.ipv4.tcp_window_scaling", "1", "lets windows exceed 64 KiB"),
        _in_namespaces(
            "net.ipv4.tcp_wmem",
            "4096 16384 4194304",
            "bounds what a sender keeps in flight; by memory in Linux",
            "net/ipv4/tcp.c, tcp_init",
        ),
        _in_kernels("net.core.busy_poll", "0", "spins for packets in place of sleeping"),
        _in_kernels("net.core.busy_read", "0", "spins for packets in place of sleeping"),
        _in_kernels("net.core.default_qdisc", "pfifo_fast", "queues what a new interface sends", "net/sched/Kconfig"),
        _in_kernels("net.core.netdev_budget", "300", "bounds the packets of one poll"),
        _in_kernels("net.core.netdev_max_backlog", "1000", "bounds packets that wait for a CPU; a veth's do"),
        _in_kernels("net.core.rmem_default", "212992", "bounds what a UDP socket receives", "net/core/sock.c"),
        _in_kernels("net.core.rmem_max", "212992", "bounds what a program may ask for", "net/core/sock.c"),
        _in_kernels("net.core.wmem_default", "212992", "bounds what a UDP socket sends", "net/core/sock.c"),
        _in_kernels("net.core.wmem_max", "212992", "bounds what a program may ask for", "net/core/sock.c"),
    ),
)
