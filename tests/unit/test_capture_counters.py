"""A kernel's own counters, read before and after a capture."""

from nearmetal.observers.capture import counters as capture_counters


def test_a_kernels_counters_are_read_by_name() -> None:
    text = "TcpExt: A TCPAutoCorking TCPOFOQueue\nTcpExt: 1 20 3\nTcp: RetransSegs MaxConn\nTcp: 4 -1\n"
    before = capture_counters.parse_counters(text)
    assert before == {"TCPAutoCorking": 20, "TCPOFOQueue": 3, "RetransSegs": 4}
    after = capture_counters.parse_counters(text.replace(" 20 ", " 29 "))
    assert capture_counters.subtract_counters(before, after) == {"kernel.TCPAutoCorking": 9}
    assert capture_counters.parse_counters("rubbish\n\nTcp:") == {}
