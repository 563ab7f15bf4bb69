"""Left open for questions: python -i interactive.py"""
import sys
history = [0.5 ** i for i in range(5)]
def best(): return min(history)
print("trained; ask me")
