"""The words of a report and their order: all sentences for people, as plain text without markup."""
