"""A network that orders a queue, taught by searches.

`network` is the pointer network, `decode` gets orders from it, `lessons` and `teach` train it by imitation of a label
set, `solver` makes an agent a source of orders.
"""
