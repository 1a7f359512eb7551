"""What requests and answers are made of, typed once: it checks them and writes the document."""
