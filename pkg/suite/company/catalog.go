package company

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is a kind of entity.
type Kind string

// The kinds. Each is a table of the database, in the plural.
const (
	Region   Kind = "region"
	Site     Kind = "site"
	Employee Kind = "employee"
	Supplier Kind = "supplier"
	Product  Kind = "product"
	Customer Kind = "customer"
	Project  Kind = "project"
)

// kinds is the order in which tables are made: a kind refers to earlier ones only.
var kinds = []Kind{Region, Site, Employee, Supplier, Product, Customer, Project}

func (k Kind) table() string { return string(k) + "s" }

// Store is where a fact is kept; each store has its tool.
type Store string

// The stores.
const (
	SQL Store = "sql"
	Doc Store = "doc"
	Web Store = "web"
)

// The tools.
const (
	ToolSQL  = "sql_query"
	ToolDoc  = "doc_search"
	ToolWeb  = "web_search"
	ToolCalc = "calculator"
)

// Tools is the canonical order of the priced tools.
var Tools = []string{ToolSQL, ToolDoc, ToolWeb, ToolCalc}

func (s Store) tool() string {
	return map[Store]string{SQL: ToolSQL, Doc: ToolDoc, Web: ToolWeb}[s]
}

type valueType int

const (
	tNum    valueType = iota // an integer of lo..hi
	tDec                     // one decimal, lo..hi in tenths
	tDate                    // an ISO date
	tWord                    // a word of a pool
	tPerson                  // a person who is no employee
	tRef                     // the name of another entity of the same pool
)

// attr is one attribute of a kind. It lives in one store: entities are shared across the stores, attributes are not.
type attr struct {
	kind   Kind
	store  Store
	key    string // the column, or the key of the fact in a corpus
	words  string // as questions and queries say it
	syn    string // as some passages say it instead
	typ    valueType
	lo, hi int
	pool   []string
	ref    Kind
	unit   string
	genre  string // the kind of document the fact stands in
}

// catalog lists every attribute. No two attributes of a kind share their words, and no word of a corpus attribute is the
// column of another store.
var catalog = []attr{
	{kind: Region, store: SQL, key: "sales_quota", words: "sales quota", typ: tNum, lo: 100, hi: 999},
	{kind: Region, store: SQL, key: "dealer_count", words: "dealer count", typ: tNum, lo: 10, hi: 99},
	{kind: Region, store: Doc, key: "travel_allowance", words: "travel allowance", syn: "per diem", typ: tNum, lo: 30, hi: 299, unit: "EUR", genre: "policy"},
	{kind: Region, store: Doc, key: "meal_limit", words: "meal limit", syn: "cap on meals", typ: tNum, lo: 10, hi: 99, unit: "EUR", genre: "policy"},
	{kind: Region, store: Web, key: "import_duty", words: "import duty", syn: "customs charge", typ: tNum, lo: 20, hi: 299, unit: "EUR", genre: "regulation"},
	{kind: Region, store: Web, key: "permit_fee", words: "permit fee", syn: "cost of a permit", typ: tNum, lo: 100, hi: 999, unit: "EUR", genre: "regulation"},
	{kind: Region, store: Web, key: "public_holiday", words: "public holiday", syn: "bank holiday", typ: tDate, genre: "regulation"},
	{kind: Region, store: Web, key: "main_buyer", words: "main buyer", syn: "biggest shopper", typ: tRef, ref: Customer, genre: "competitors"},

	{kind: Site, store: SQL, key: "capacity", words: "capacity", typ: tNum, lo: 100, hi: 9999},
	{kind: Site, store: SQL, key: "loading_docks", words: "loading docks", typ: tNum, lo: 10, hi: 99},
	{kind: Site, store: SQL, key: "opening_date", words: "opening date", typ: tDate},
	{kind: Site, store: SQL, key: "region", words: "region", typ: tRef, ref: Region},
	{kind: Site, store: SQL, key: "asset_number", words: "asset number", typ: tNum, lo: 10_000_000, hi: 99_999_999},
	{kind: Site, store: Doc, key: "visitor_limit", words: "visitor limit", syn: "most guests at once", typ: tNum, lo: 10, hi: 399, unit: "people", genre: "handbook"},
	{kind: Site, store: Doc, key: "assembly_point", words: "assembly point", syn: "place to gather", typ: tWord, pool: gates, genre: "handbook"},
	{kind: Site, store: Doc, key: "fire_warden", words: "fire warden", syn: "person in charge of fires", typ: tRef, ref: Employee, genre: "handbook"},
	{kind: Site, store: Web, key: "power_tariff", words: "power tariff", syn: "electricity rate", typ: tNum, lo: 10, hi: 399, unit: "EUR", genre: "prices"},
	{kind: Site, store: Web, key: "annual_rainfall", words: "annual rainfall", syn: "rain in a year", typ: tNum, lo: 300, hi: 999, unit: "mm", genre: "news"},
	{kind: Site, store: Web, key: "nearest_seaport", words: "nearest seaport", syn: "closest port", typ: tWord, pool: harbours, genre: "news"},

	{kind: Employee, store: SQL, key: "salary", words: "salary", typ: tNum, lo: 20000, hi: 99999},
	{kind: Employee, store: SQL, key: "vacation_days", words: "vacation days", typ: tNum, lo: 12, hi: 60},
	{kind: Employee, store: SQL, key: "hire_date", words: "hire date", typ: tDate},
	{kind: Employee, store: SQL, key: "department", words: "department", typ: tWord, pool: deptNames},
	{kind: Employee, store: SQL, key: "office", words: "office", typ: tRef, ref: Site},
	{kind: Employee, store: Doc, key: "training_fund", words: "training fund", syn: "money for courses", typ: tNum, lo: 100, hi: 999, unit: "EUR", genre: "memo"},
	{kind: Employee, store: Doc, key: "badge_colour", words: "badge colour", syn: "hue of the pass", typ: tWord, pool: colours, genre: "memo"},
	{kind: Employee, store: Doc, key: "review_date", words: "review date", syn: "day of the appraisal", typ: tDate, genre: "memo"},
	{kind: Employee, store: Web, key: "patent_count", words: "patent count", syn: "patents held", typ: tNum, lo: 10, hi: 399, genre: "news"},
	{kind: Employee, store: Web, key: "talk_city", words: "talk city", syn: "place of the lecture", typ: tWord, pool: cities, genre: "news"},

	{kind: Supplier, store: SQL, key: "lead_days", words: "lead days", typ: tNum, lo: 10, hi: 99},
	{kind: Supplier, store: SQL, key: "order_minimum", words: "order minimum", typ: tNum, lo: 100, hi: 999},
	{kind: Supplier, store: SQL, key: "contract_end", words: "contract end", typ: tDate},
	{kind: Supplier, store: SQL, key: "city", words: "city", typ: tWord, pool: cities},
	{kind: Supplier, store: SQL, key: "region", words: "region", typ: tRef, ref: Region},
	{kind: Supplier, store: Doc, key: "audit_score", words: "audit score", syn: "result of the audit", typ: tNum, lo: 100, hi: 999, unit: "points", genre: "memo"},
	{kind: Supplier, store: Doc, key: "rebate", words: "rebate", syn: "money back", typ: tNum, lo: 10, hi: 299, unit: "EUR", genre: "policy"},
	{kind: Supplier, store: Doc, key: "auditor", words: "auditor", syn: "person who audits", typ: tRef, ref: Employee, genre: "memo"},
	{kind: Supplier, store: Web, key: "share_price", words: "share price", syn: "stock quote", typ: tNum, lo: 20, hi: 499, unit: "EUR", genre: "prices"},
	{kind: Supplier, store: Web, key: "plant_count", words: "plant count", syn: "number of factories", typ: tNum, lo: 10, hi: 99, genre: "news"},
	{kind: Supplier, store: Web, key: "chairman", words: "chairman", syn: "head of the board", typ: tPerson, genre: "news"},

	{kind: Product, store: SQL, key: "unit_price", words: "unit price", typ: tNum, lo: 20, hi: 499},
	{kind: Product, store: SQL, key: "stock", words: "stock", typ: tNum, lo: 10, hi: 99},
	{kind: Product, store: SQL, key: "weight", words: "weight", typ: tDec, lo: 110, hi: 990},
	{kind: Product, store: SQL, key: "launch_date", words: "launch date", typ: tDate},
	{kind: Product, store: SQL, key: "category", words: "category", typ: tWord, pool: categories},
	{kind: Product, store: SQL, key: "supplier", words: "supplier", typ: tRef, ref: Supplier},
	{kind: Product, store: Doc, key: "warranty", words: "warranty", syn: "guarantee", typ: tNum, lo: 12, hi: 99, unit: "months", genre: "policy"},
	{kind: Product, store: Doc, key: "test_load", words: "test load", syn: "weight in the trial", typ: tNum, lo: 100, hi: 999, unit: "kg", genre: "handbook"},
	{kind: Product, store: Doc, key: "handling_fee", words: "handling fee", syn: "charge for packing", typ: tNum, lo: 10, hi: 299, unit: "EUR", genre: "policy"},
	{kind: Product, store: Doc, key: "service_lead", words: "service lead", syn: "person who repairs", typ: tRef, ref: Employee, genre: "handbook"},
	{kind: Product, store: Web, key: "rival_price", words: "rival price", syn: "cost at others", typ: tNum, lo: 20, hi: 499, unit: "EUR", genre: "competitors"},
	{kind: Product, store: Web, key: "noise_level", words: "noise level", syn: "loudness", typ: tNum, lo: 30, hi: 120, unit: "dB", genre: "competitors"},
	{kind: Product, store: Web, key: "inventor", words: "inventor", syn: "mind behind it", typ: tRef, ref: Employee, genre: "news"},
	{kind: Product, store: Web, key: "award_city", words: "award city", syn: "place of the prize", typ: tWord, pool: cities, genre: "news"},

	{kind: Customer, store: SQL, key: "credit_limit", words: "credit limit", typ: tNum, lo: 10000, hi: 99999},
	{kind: Customer, store: SQL, key: "discount", words: "discount", typ: tNum, lo: 10, hi: 99},
	{kind: Customer, store: SQL, key: "invoice_days", words: "invoice days", typ: tNum, lo: 10, hi: 120},
	{kind: Customer, store: SQL, key: "signup_date", words: "signup date", typ: tDate},
	{kind: Customer, store: SQL, key: "segment", words: "segment", typ: tWord, pool: segments},
	{kind: Customer, store: SQL, key: "account_manager", words: "account manager", typ: tRef, ref: Employee},
	{kind: Customer, store: Doc, key: "late_penalty", words: "late penalty", syn: "fine for delay", typ: tNum, lo: 10, hi: 399, unit: "EUR", genre: "policy"},
	{kind: Customer, store: Doc, key: "response_hours", words: "response hours", syn: "time to react", typ: tNum, lo: 10, hi: 99, unit: "hours", genre: "policy"},
	{kind: Customer, store: Doc, key: "renewal_date", words: "renewal date", syn: "day of the extension", typ: tDate, genre: "memo"},
	{kind: Customer, store: Doc, key: "sponsor", words: "sponsor", syn: "patron", typ: tRef, ref: Employee, genre: "memo"},
	{kind: Customer, store: Web, key: "staff_count", words: "staff count", syn: "people employed", typ: tNum, lo: 100, hi: 9999, genre: "news"},
	{kind: Customer, store: Web, key: "store_count", words: "store count", syn: "number of branches", typ: tNum, lo: 10, hi: 299, genre: "competitors"},
	{kind: Customer, store: Web, key: "founder", words: "founder", syn: "person who set up", typ: tPerson, genre: "news"},
	{kind: Customer, store: Web, key: "merger_date", words: "merger date", syn: "day of the takeover", typ: tDate, genre: "news"},

	{kind: Project, store: SQL, key: "budget", words: "budget", typ: tNum, lo: 100, hi: 9999},
	{kind: Project, store: SQL, key: "team_size", words: "team size", typ: tNum, lo: 10, hi: 60},
	{kind: Project, store: SQL, key: "start_date", words: "start date", typ: tDate},
	{kind: Project, store: SQL, key: "manager", words: "manager", typ: tRef, ref: Employee},
	{kind: Project, store: SQL, key: "client", words: "client", typ: tRef, ref: Customer},
	{kind: Project, store: Doc, key: "downtime", words: "downtime", syn: "outage", typ: tNum, lo: 10, hi: 399, unit: "minutes", genre: "post-mortem"},
	{kind: Project, store: Doc, key: "root_cause", words: "root cause", syn: "reason of the failure", typ: tWord, pool: causes, genre: "post-mortem"},
	{kind: Project, store: Doc, key: "reviewer", words: "reviewer", syn: "author of the findings", typ: tRef, ref: Employee, genre: "post-mortem"},
	{kind: Project, store: Web, key: "grant", words: "grant", syn: "subsidy", typ: tNum, lo: 20, hi: 499, unit: "EUR", genre: "news"},
	{kind: Project, store: Web, key: "spokesman", words: "spokesman", syn: "voice in the press", typ: tRef, ref: Employee, genre: "news"},
	{kind: Project, store: Web, key: "partner_university", words: "partner university", syn: "academic ally", typ: tWord, pool: unis, genre: "news"},
}

// guidePrice is the attribute of the two_source stratum: it stands in both corpora when the stratum is on.
var guidePrice = attr{kind: Product, store: Doc, key: "guide_price", words: "guide price", typ: tNum, lo: 20, hi: 499, unit: "EUR", genre: "policy"}

var catalogIndex = func() map[string]*attr {
	m := map[string]*attr{}
	for i := range catalog {
		a := &catalog[i]
		id := string(a.kind) + "." + a.key
		if m[id] != nil {
			panic("catalog: attribute " + id + " twice")
		}
		m[id] = a
	}
	m["product.guide_price"] = &guidePrice
	return m
}()

// attribute finds an attribute of the catalog by "kind.key"; an unknown one is a mistake in this package.
func attribute(id string) *attr {
	a := catalogIndex[id]
	if a == nil {
		panic("company: no attribute " + id + " in the catalog")
	}
	return a
}

// draw makes a value that the entity does not bear yet: equal numbers of one entity would let one store stand in for
// another.
func (a *attr) draw(r *rand.Rand, used map[string]bool, person func() (string, error)) (string, error) {
	for range 1000 {
		var v string
		switch a.typ {
		case tNum:
			v = fmt.Sprint(a.lo + r.IntN(a.hi-a.lo+1))
		case tDec:
			n := a.lo + r.IntN(a.hi-a.lo+1)
			if n%10 == 0 {
				n++
			}
			v = fmt.Sprintf("%d.%d", n/10, n%10)
		case tDate:
			v = time.Date(2012, 1, 1+r.IntN(365*14), 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		case tWord:
			v = a.pool[r.IntN(len(a.pool))]
		case tPerson:
			return person()
		default:
			return "", fmt.Errorf("attribute %s.%s: a reference is not drawn", a.kind, a.key)
		}
		if !used[v] {
			used[v] = true
			return v, nil
		}
	}
	return "", fmt.Errorf("attribute %s.%s: no value left that the entity does not bear", a.kind, a.key)
}
