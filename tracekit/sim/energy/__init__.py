"""Room for power and energy (to come): power models of hosts, integrated over a finished schedule."""
