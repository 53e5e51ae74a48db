"""Small inputs that several tests use."""

from __future__ import annotations

#: A whole SWF file of three jobs.
SWF_TEXT = """\
; Version: 2.2
; Computer: Toy
; UnixStartTime: 1000000000
; TimeZoneString: Europe/Stockholm
; MaxNodes: 8
; MaxProcs: 16
; Queue: 1 batch
;
1 0 5 100 4 90.5 -1 4 200 -1 1 1 1 3 1 -1 -1 -1
2 10 -1 0 -1 -1 -1 8 60 -1 5 2 1 -1 1 -1 -1 -1
3 20 0 50 16 -1 1024 16 60 2048 0 1 1 3 1 -1 1 10
"""
