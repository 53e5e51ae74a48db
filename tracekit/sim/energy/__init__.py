"""Power and energy: power models of machines, integrated exactly over a finished schedule.

`model` reads power models, `pue` cooling, `series` carbon, prices and temperatures over time; `states` are hosts that
sleep, `held` is what jobs hold of hosts, `integrate` the integral, `gat_drl` another system's model; `account`
joins them.
"""
