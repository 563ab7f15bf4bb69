import torch


def rollouts(count, generator):
    """State, action and next state of a springy leg."""
    state = torch.randn(count, 6, generator=generator)
    action = torch.rand(count, 2, generator=generator) * 2 - 1
    push = torch.cat([action, action.flip(1), action * 0.5], 1)
    after = state + 0.6 * torch.sin(2 * state.roll(1, 1)) + 0.8 * push
    return torch.cat([state, action], 1), after
