"""Scheduling decisions for an external scheduler: requests and answers (`protocol`), one agent (`decide`), HTTP."""
