"""What stands beside the messages that are shown."""

from llm_lite.core.history import ConversationTree


def others(state, index):
    """The other versions of a message that is shown, the oldest first."""
    tree, shown = state.tree, state.messages[index].id
    return [tree.find(one) for one in tree.versions(index) if one != shown]


def has_versions(state, index):
    return len(state.tree.versions(index)) > 1


def with_beside(path, index, before):
    """The tree of a path whose message at `index` was `before` first."""
    return ConversationTree((*path[:index], before)).with_path(path)
