"""Words for a report and their order: every sentence for people is made here, as plain text without markup."""
