"""What belongs to the conversation in front: scopes of the state, its gains, its tokens."""
