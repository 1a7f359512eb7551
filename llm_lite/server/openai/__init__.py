"""The addresses of OpenAI's protocol: https://platform.openai.com/docs/api-reference"""
