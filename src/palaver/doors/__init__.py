"""The doors: how what can be done is reached. They never see the store."""
