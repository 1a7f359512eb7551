"""The addresses of OpenAI's protocol, a module a family: https://platform.openai.com/docs/api-reference"""
