"""Operations of the bus: threads, messages, reactions, agents."""
