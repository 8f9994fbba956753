"""Readers of the sessions of coding agents: one file for each program.

All of them keep messages of the user (role user), text answers of the model (assistant), calls of tools as
`[tool NAME] {arguments}`, cut at 2,000 characters (tool), and their results, cut at 10,000 (tool); or the short form of
calls and results, or neither (`tool_output`). They leave out thinking, images, what the program adds or says itself,
and calls of palaver's own tools with their results. Each file says what else it keeps and leaves out.
"""
