"""Scheduling decisions for somebody else's scheduler: requests and answers (`protocol`), one agent (`decide`), HTTP."""
