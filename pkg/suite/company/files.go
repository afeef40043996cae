package company

const dbFile = "company.sqlite"
