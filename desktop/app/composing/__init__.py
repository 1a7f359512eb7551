"""What is brought into a draft from the disk: files that go with it, the library of prompts."""
