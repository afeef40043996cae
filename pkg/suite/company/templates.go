package company

import "slices"

// A template is a family of questions of one structure over one combination of tools. A variant fills in the attributes
// (a, b, c as "kind.key"; b and c are of the kind that a refers to where the structure hops) and the operation.
type template struct {
	name       string
	structure  string
	tag        string // TagNewFilling or TagNewStructure of a held-out combination
	difficulty int
	weight     int // its share of a split
	variants   []variant
	phrasings  []string // of train; {E} the entity, {a} {b} {c} words of attributes, {k} {m} {n} constants, {op} the operation
	unseen     []string // wordings that stand in the test only
}

type variant struct{ a, b, c, op string }

// The structures.
const (
	oneFact         = "A"
	aggregate       = "agg A"
	listOf          = "list A"
	hop             = "A then B"
	aboveConst      = "A vs const"
	opConst         = "A op const"
	opConstConst    = "A op const op const"
	opFacts         = "A op B"
	versus          = "A vs B"
	hopOpConst      = "A then B op const"
	hopOpConstConst = "A then B op const op const"
	chain           = "A then B then C"
	constOp         = "const op const"
	constOpOp       = "const op const op const"
	both            = "A and B"
	opFactsConst    = "A op B op const"
)

// further is the word of the constant that the result of a calculation is multiplied by, in the structures that do so.
var further = map[string]string{opConstConst: "{m}", hopOpConstConst: "{m}", opFactsConst: "{k}"}

// ops says how an operation is written, by its sign: "%" is percent of.
var ops = map[string]string{"+": "plus", "-": "minus", "*": "times", "%": "percent of"}

func vs(ids ...string) []variant {
	out := make([]variant, len(ids))
	for i, id := range ids {
		out[i].a = id
	}
	return out
}

// withOp crosses attributes with operations.
func withOp(ops []string, ids ...string) []variant {
	var out []variant
	for _, id := range ids {
		for _, op := range ops {
			out = append(out, variant{a: id, op: op})
		}
	}
	return out
}

func pairs(op string, ids ...[2]string) []variant {
	out := make([]variant, len(ids))
	for i, p := range ids {
		out[i] = variant{a: p[0], b: p[1], op: op}
	}
	return out
}

// numbers lists the numeric attributes of a store, "kind.key", that are compared and calculated with: numbers of three digits at
// most, since longer ones test how digits are copied and not which tool is called.
func numbers(store Store) []string {
	var out []string
	for i := range catalog {
		if a := &catalog[i]; a.store == store && a.typ == tNum && a.hi <= 999 {
			out = append(out, string(a.kind)+"."+a.key)
		}
	}
	return out
}

// together pairs the numeric attributes of two stores that one kind of entity has, in either order: a model that saw a pair in one template
// only would recognise the template by the pair.
func together(op string, one, other Store) []variant {
	var out []variant
	for _, a := range numbers(one) {
		for _, b := range numbers(other) {
			if attribute(a).kind == attribute(b).kind {
				out = append(out, variant{a: a, b: b, op: op}, variant{a: b, b: a, op: op})
			}
		}
	}
	return out
}

// hops pairs each attribute of one store that names an entity with the attributes that this kind of entity has in another store. With an
// operation it takes numeric ones only. It leaves out the pairs in without.
func hops(op string, from, to Store, without ...[2]string) []variant {
	var out []variant
	for i := range catalog {
		a := &catalog[i]
		if a.store != from || a.typ != tRef {
			continue
		}
		for j := range catalog {
			b := &catalog[j]
			pair := [2]string{string(a.kind) + "." + a.key, string(b.kind) + "." + b.key}
			if b.store == to && b.kind == a.ref && (op == "" || b.typ == tNum && b.hi <= 999) && !slices.Contains(without, pair) {
				out = append(out, variant{a: pair[0], b: pair[1], op: op})
			}
		}
	}
	return out
}

// undated are the variants that do not lead to a date. Variants that do are a template that train never shows.
func undated(vs []variant) []variant {
	return slices.DeleteFunc(vs, func(v variant) bool { return attribute(v.b).typ == tDate })
}

var (
	askThing = []string{"What is the {a} of {E}?", "Tell me the {a} of {E}.", "{E}: what is its {a}?", "Please give the {a} for {E}.", "Find the {a} of {E}.", "Look up the {a} of {E}.", "I need the {a} of {E}.",
		"Do you know the {a} of {E}?", "I want to see the {a} of {E}.", "I want to know the {a} of {E}.", "Let me know the {a} of {E}.", "What {a} does {E} have?", "I need to see the {a} of {E}.", "Please tell me the {a} of {E}."}
	askThing2 = []string{"I need to know the {a} of {E}.", "Which {a} does {E} have?"}
	askDate   = []string{"What is the {a} of {E}?", "On which day is the {a} of {E}?", "{E}: when is its {a}?", "Find the {a} of {E}.", "Tell me the {a} of {E}.", "Do you know when the {a} of {E} is?",
		"I want to know when the {a} of {E} is.", "Let me know when the {a} of {E} is.", "I need the {a} of {E}.", "Please tell me when the {a} of {E} is."}
	askDate2 = []string{"I need to know when the {a} of {E} is."}
	askWho   = []string{"Who is the {a} of {E}?", "What is the name of the {a} of {E}?", "{E}: who is its {a}?", "Find the {a} of {E}.", "Tell me the {a} of {E}.", "Do you know who is the {a} of {E}?",
		"I want to know who is the {a} of {E}.", "Let me know who is the {a} of {E}.", "I need the name of the {a} of {E}.", "Please tell me who is the {a} of {E}."}
	askWho2  = []string{"I need to know who is the {a} of {E}."}
	askAbove = []string{"Is the {a} of {E} above {k}?", "Is the {a} of {E} more than {k}?", "{E}: is its {a} above {k}?", "Tell me if the {a} of {E} is above {k}.", "I want to know if the {a} of {E} is more than {k}.",
		"Let me know if the {a} of {E} is above {k}.", "Please tell me if the {a} of {E} is more than {k}."}
	askAbove2 = []string{"Do you know if the {a} of {E} is more than {k}?"}
	askConst  = []string{"What is the {a} of {E} {op} {k}?", "Take the {a} of {E} {op} {k}, what is it?", "{E}: what is its {a} {op} {k}?", "Find the {a} of {E} {op} {k}.", "Tell me the {a} of {E} {op} {k}.",
		"Please give the {a} of {E} {op} {k}.", "I want to see the {a} of {E} {op} {k}.", "I want to know the {a} of {E} {op} {k}.", "Let me know the {a} of {E} {op} {k}.", "I need the {a} of {E} {op} {k}."}
	askConst2 = []string{"I need to know the {a} of {E} {op} {k}."}
	askPct    = []string{"What is {k} percent of the {a} of {E}?", "How much is {k} percent of the {a} of {E}?", "{E}: what is {k} percent of its {a}?", "Find {k} percent of the {a} of {E}.", "Tell me {k} percent of the {a} of {E}.",
		"I want to know {k} percent of the {a} of {E}.", "Let me know {k} percent of the {a} of {E}.", "I need {k} percent of the {a} of {E}."}
	askPct2 = []string{"I need to know {k} percent of the {a} of {E}."}
	askOp   = []string{"What is the {a} of {E} {op} its {b}?", "Take the {a} of {E} {op} its {b}, what is it?", "{E}: what is its {a} {op} its {b}?", "Find the {a} of {E} {op} its {b}.", "Tell me the {a} of {E} {op} its {b}.",
		"Please give the {a} of {E} {op} its {b}.", "I want to know the {a} of {E} {op} its {b}.", "Let me know the {a} of {E} {op} its {b}.", "I need the {a} of {E} {op} its {b}."}
	askOp2 = []string{"I need to know the {a} of {E} {op} its {b}."}
	askHop = []string{"What is the {b} of the {a} of {E}?", "Tell me the {b} of the {a} of {E}.", "{E}: what is the {b} of its {a}?", "Find the {b} of the {a} of {E}.", "Look up the {b} of the {a} of {E}.",
		"Please give the {b} of the {a} of {E}.", "I need the {b} of the {a} of {E}.", "I want to know the {b} of the {a} of {E}.", "Let me know the {b} of the {a} of {E}."}
	askHop2 = []string{"I need to know the {b} of the {a} of {E}."}
	askVs   = []string{"Is the {a} of {E} above its {b}?", "Is the {a} of {E} more than its {b}?", "{E}: is its {a} above its {b}?", "Tell me if the {a} of {E} is above its {b}.", "I want to know if the {a} of {E} is more than its {b}.",
		"Let me know if the {a} of {E} is above its {b}.", "Please tell me if the {a} of {E} is more than its {b}."}
	askVs2   = []string{"Do you know if the {a} of {E} is more than its {b}?"}
	askHopOp = []string{"What is the {b} of the {a} of {E} {op} {k}?", "Take the {b} of the {a} of {E} {op} {k}, what is it?", "{E}: what is the {b} of its {a} {op} {k}?", "Find the {b} of the {a} of {E} {op} {k}.",
		"Tell me the {b} of the {a} of {E} {op} {k}.", "Please give the {b} of the {a} of {E} {op} {k}.", "I want to know the {b} of the {a} of {E} {op} {k}.", "I need the {b} of the {a} of {E} {op} {k}."}
	askHopOp2 = []string{"I need to know the {b} of the {a} of {E} {op} {k}."}
	askChain  = []string{"What is the {c} of the {b} of the {a} of {E}?", "Tell me the {c} of the {b} of the {a} of {E}.", "{E}: what is the {c} of the {b} of its {a}?", "Find the {c} of the {b} of the {a} of {E}.",
		"Look up the {c} of the {b} of the {a} of {E}.", "I want to know the {c} of the {b} of the {a} of {E}.", "I need the {c} of the {b} of the {a} of {E}."}
	askChain2 = []string{"I need to know the {c} of the {b} of the {a} of {E}."}
	askTwice  = []string{"Take the {a} of {E} {op} {k}, what is it times {m}?", "{E}: what is its {a} {op} {k}, what is it times {m}?", "Find the {a} of {E} {op} {k}, what is it times {m}?",
		"I want to know the {a} of {E} {op} {k}, what is it times {m}?"}
	askHopTwice  = []string{"Take the {b} of the {a} of {E} {op} {k}, what is it times {m}?", "{E}: what is the {b} of its {a} {op} {k}, what is it times {m}?", "Find the {b} of the {a} of {E} {op} {k}, what is it times {m}?"}
	askHopTwice2 = []string{"I need to know the {b} of the {a} of {E} {op} {k}, what is it times {m}?"}
	askTwice2    = []string{"I need to know the {a} of {E} {op} {k}, what is it times {m}?"}
)

// trained are the templates of train, val and test. If a template combines facts of two stores, either can come first. So the tool for a
// fact follows from the fact, and not from its place in the question.
var trained = []template{
	{name: "sql_number", structure: oneFact, difficulty: 1, weight: 8, phrasings: askThing, unseen: askThing2,
		variants: vs("product.unit_price", "product.stock", "product.weight", "supplier.lead_days", "supplier.order_minimum",
			"customer.credit_limit", "customer.discount", "customer.invoice_days", "employee.salary", "employee.vacation_days", "site.capacity",
			"site.loading_docks", "project.budget", "project.team_size", "region.sales_quota", "region.dealer_count")},
	{name: "sql_long_number", structure: oneFact, difficulty: 2, weight: 1, phrasings: askThing, unseen: askThing2, variants: vs("site.asset_number")},
	{name: "sql_date", structure: oneFact, difficulty: 1, weight: 3, phrasings: askDate, unseen: askDate2,
		variants: vs("product.launch_date", "supplier.contract_end", "customer.signup_date", "employee.hire_date", "site.opening_date", "project.start_date")},
	{name: "sql_name", structure: oneFact, difficulty: 1, weight: 5, phrasings: askThing, unseen: askThing2,
		variants: vs("product.supplier", "product.category", "supplier.city", "supplier.region", "customer.segment", "employee.department",
			"employee.office", "site.region", "project.client")},
	{name: "sql_person", structure: oneFact, difficulty: 1, weight: 2, phrasings: askWho, unseen: askWho2,
		variants: vs("customer.account_manager", "project.manager")},
	{name: "sql_count", structure: aggregate, difficulty: 1, weight: 3,
		variants:  []variant{{a: "customer", op: "order_count"}, {a: "supplier", op: "product_count"}},
		phrasings: []string{"How many {a} does {E} have?", "Count the {a} of {E}.", "{E}: how many {a}?", "I want to know how many {a} {E} has.", "Tell me how many {a} {E} has.", "Let me know how many {a} {E} has."},
		unseen:    []string{"I need to know how many {a} {E} has."}},
	{name: "sql_sum", structure: aggregate, difficulty: 2, weight: 3,
		variants:  []variant{{a: "product", op: "sold_sum"}, {a: "supplier", op: "price_max"}, {a: "supplier", op: "stock_sum"}},
		phrasings: []string{"What is the {a} of {E}?", "Tell me the {a} of {E}.", "{E}: what is its {a}?", "I want to know the {a} of {E}.", "Let me know the {a} of {E}.", "I need the {a} of {E}."},
		unseen:    []string{"I need to know the {a} of {E}."}},
	{name: "sql_list", structure: listOf, difficulty: 2, weight: 3,
		variants:  []variant{{a: "supplier", op: "products"}, {a: "employee", op: "projects"}, {a: "region", op: "sites"}},
		phrasings: []string{"Which {a} belong to {E}?", "List the {a} of {E}.", "{E}: which are its {a}?", "Tell me which {a} belong to {E}.", "I want to know which {a} belong to {E}.", "Please give the names of all {a} of {E}."},
		unseen:    []string{"I need the names of all {a} of {E}."}},
	{name: "sql_join", structure: hop, difficulty: 2, weight: 5, phrasings: askHop, unseen: askHop2,
		variants: undated(hops("", SQL, SQL, heldHops...))},
	{name: "sql_above", structure: aboveConst, difficulty: 1, weight: 3, phrasings: askAbove, unseen: askAbove2,
		variants: vs(numbers(SQL)...)},
	{name: "doc_number", structure: oneFact, difficulty: 1, weight: 8, phrasings: askThing, unseen: askThing2,
		variants: vs("product.warranty", "product.test_load", "product.handling_fee", "supplier.audit_score", "supplier.rebate", "customer.late_penalty",
			"customer.response_hours", "employee.training_fund", "site.visitor_limit", "project.downtime", "region.travel_allowance", "region.meal_limit")},
	{name: "doc_name", structure: oneFact, difficulty: 1, weight: 4, phrasings: askThing, unseen: askThing2,
		variants: vs("site.assembly_point", "employee.badge_colour", "project.root_cause")},
	{name: "doc_person", structure: oneFact, difficulty: 1, weight: 3, phrasings: askWho, unseen: askWho2,
		variants: vs("product.service_lead", "site.fire_warden", "supplier.auditor", "customer.sponsor", "project.reviewer")},
	{name: "doc_date", structure: oneFact, difficulty: 1, weight: 3, phrasings: askDate, unseen: askDate2,
		variants: vs("employee.review_date", "customer.renewal_date")},
	{name: "doc_above", structure: aboveConst, difficulty: 1, weight: 3, phrasings: askAbove, unseen: askAbove2,
		variants: vs(numbers(Doc)...)},
	{name: "web_number", structure: oneFact, difficulty: 1, weight: 8, phrasings: askThing, unseen: askThing2,
		variants: vs("product.rival_price", "product.noise_level", "supplier.share_price", "supplier.plant_count", "customer.staff_count",
			"customer.store_count", "employee.patent_count", "site.power_tariff", "site.annual_rainfall", "project.grant", "region.import_duty", "region.permit_fee")},
	{name: "web_name", structure: oneFact, difficulty: 1, weight: 4, phrasings: askThing, unseen: askThing2,
		variants: vs("product.award_city", "employee.talk_city", "site.nearest_seaport", "project.partner_university", "region.main_buyer")},
	{name: "web_person", structure: oneFact, difficulty: 1, weight: 3, phrasings: askWho, unseen: askWho2,
		variants: vs("supplier.chairman", "customer.founder", "product.inventor", "project.spokesman")},
	{name: "web_date", structure: oneFact, difficulty: 1, weight: 3, phrasings: askDate, unseen: askDate2,
		variants: vs("customer.merger_date", "region.public_holiday")},
	{name: "web_above", structure: aboveConst, difficulty: 1, weight: 3, phrasings: askAbove, unseen: askAbove2,
		variants: vs(numbers(Web)...)},
	{name: "calc_two", structure: constOp, difficulty: 1, weight: 4, variants: []variant{{op: "+"}, {op: "-"}, {op: "*"}, {op: "%"}},
		phrasings: []string{"What is {k} {op} {m}?", "Compute {k} {op} {m}.", "How much is {k} {op} {m}?", "I want to know {k} {op} {m}.", "Let me know {k} {op} {m}.", "I need {k} {op} {m}."},
		unseen:    []string{"I need to know {k} {op} {m}."}},
	{name: "calc_three", structure: constOpOp, difficulty: 2, weight: 3, variants: []variant{{op: "+"}, {op: "-"}, {op: "*"}},
		phrasings: []string{"What is {k} times {m} {op} {n}?", "Compute {k} times {m} {op} {n}.", "How much is {k} times {m} {op} {n}?", "I want to know {k} times {m} {op} {n}.", "Let me know {k} times {m} {op} {n}.", "I need {k} times {m} {op} {n}."},
		unseen:    []string{"I need to know {k} times {m} {op} {n}."}},

	{name: "sql_arith", structure: opConst, difficulty: 2, weight: 5, phrasings: askConst, unseen: askConst2,
		variants: withOp([]string{"*", "+"}, numbers(SQL)...)},
	{name: "sql_percent", structure: opConst, difficulty: 2, weight: 4, phrasings: askPct, unseen: askPct2,
		variants: withOp([]string{"%"}, numbers(SQL)...)},
	{name: "sql_columns", structure: opFacts, difficulty: 2, weight: 5, phrasings: askOp, unseen: askOp2,
		variants: append(pairs("*", [2]string{"product.unit_price", "product.stock"}, [2]string{"supplier.order_minimum", "supplier.lead_days"}),
			pairs("-", [2]string{"customer.invoice_days", "customer.discount"}, [2]string{"project.budget", "project.team_size"}, [2]string{"region.sales_quota", "region.dealer_count"})...)},
	{name: "doc_plus", structure: opConst, difficulty: 2, weight: 4, phrasings: askConst, unseen: askConst2,
		variants: withOp([]string{"+", "-"}, numbers(Doc)...)},
	{name: "doc_times", structure: opConst, difficulty: 2, weight: 4, phrasings: askConst, unseen: askConst2,
		variants: withOp([]string{"*"}, numbers(Doc)...)},
	{name: "web_minus", structure: opConst, difficulty: 2, weight: 4, phrasings: askConst, unseen: askConst2,
		variants: withOp([]string{"-", "*"}, numbers(Web)...)},
	{name: "web_percent", structure: opConst, difficulty: 2, weight: 4, phrasings: askPct, unseen: askPct2,
		variants: withOp([]string{"%"}, numbers(Web)...)},
	{name: "sql_arith_times", structure: opConstConst, difficulty: 3, weight: 4, phrasings: askTwice, unseen: askTwice2,
		variants: withOp([]string{"+", "-"}, numbers(SQL)...)},
	{name: "doc_arith_times", structure: opConstConst, difficulty: 3, weight: 3, phrasings: askTwice, unseen: askTwice2,
		variants: withOp([]string{"+", "-"}, numbers(Doc)...)},
	{name: "web_arith_times", structure: opConstConst, difficulty: 3, weight: 3, phrasings: askTwice, unseen: askTwice2,
		variants: withOp([]string{"+", "-"}, numbers(Web)...)},
	{name: "sql_web_hop", structure: hop, difficulty: 2, weight: 7, phrasings: askHop, unseen: askHop2,
		variants: hops("", SQL, Web, heldHops...)},
	{name: "web_sql_hop", structure: hop, difficulty: 2, weight: 5, phrasings: askHop, unseen: askHop2,
		variants: hops("", Web, SQL, heldHops...)},
	{name: "web_doc_hop", structure: hop, difficulty: 2, weight: 5, phrasings: askHop, unseen: askHop2,
		variants: hops("", Web, Doc, heldHops...)},
	{name: "sql_web_compare", structure: versus, difficulty: 2, weight: 5, phrasings: askVs, unseen: askVs2,
		variants: together("", SQL, Web)},
	{name: "doc_web_hop", structure: hop, difficulty: 2, weight: 6, phrasings: askHop, unseen: askHop2,
		variants: hops("", Doc, Web, heldHops...)},
	{name: "doc_web_compare", structure: versus, difficulty: 2, weight: 5, phrasings: askVs, unseen: askVs2,
		variants: together("", Doc, Web)},

	{name: "sql_web_sum", structure: opFacts, difficulty: 3, weight: 5, phrasings: askOp, unseen: askOp2,
		variants: together("+", SQL, Web)},
	{name: "sql_web_gap", structure: opFacts, difficulty: 3, weight: 4, phrasings: askOp, unseen: askOp2,
		variants: together("-", SQL, Web)},
	{name: "sql_doc_sum", structure: opFacts, difficulty: 3, weight: 5, phrasings: askOp, unseen: askOp2,
		variants: together("+", SQL, Doc)},
	{name: "sql_doc_product", structure: opFacts, difficulty: 3, weight: 4, phrasings: askOp, unseen: askOp2,
		variants: together("*", SQL, Doc)},
	{name: "sql_web_hop_arith", structure: hopOpConst, difficulty: 3, weight: 5, phrasings: askHopOp, unseen: askHopOp2,
		variants: append(hops("*", SQL, Web, heldHops...), hops("+", SQL, Web, heldHops...)...)},
	{name: "sql_web_hop_times", structure: hopOpConstConst, difficulty: 3, weight: 3, phrasings: askHopTwice, unseen: askHopTwice2,
		variants: append(hops("-", SQL, Web, heldHops...), hops("+", SQL, Web, heldHops...)...)},
	{name: "web_sql_hop_arith", structure: hopOpConst, difficulty: 3, weight: 3, phrasings: askHopOp, unseen: askHopOp2,
		variants: append(hops("*", Web, SQL, heldHops...), hops("+", Web, SQL, heldHops...)...)},
	{name: "sql_doc_web_chain", structure: chain, difficulty: 3, weight: 5, phrasings: askChain, unseen: askChain2,
		variants: []variant{{a: "customer.sponsor", b: "employee.office", c: "site.power_tariff"}, {a: "customer.sponsor", b: "employee.office", c: "site.nearest_seaport"},
			{a: "supplier.auditor", b: "employee.office", c: "site.annual_rainfall"}, {a: "product.service_lead", b: "employee.office", c: "site.power_tariff"},
			{a: "project.reviewer", b: "employee.office", c: "site.nearest_seaport"}}},
}

// heldJoins, heldSQLWeb and heldDocWeb are the hops of heldTemplates, heldHops all of them. If possible, a trained hop from elsewhere asks
// for the same attribute as such a hop. Hops between the documents and the web ask for nine attributes in all. Train keeps one of the nine,
// so that it has a hop that asks a document about a main buyer.
var (
	heldJoins = [][2]string{{"customer.account_manager", "employee.hire_date"}, {"project.client", "customer.signup_date"}, {"employee.office", "site.opening_date"},
		{"product.supplier", "supplier.contract_end"}, {"site.region", "region.dealer_count"}, {"supplier.region", "region.sales_quota"}, {"project.manager", "employee.salary"},
		{"project.manager", "employee.department"}, {"customer.account_manager", "employee.vacation_days"}, {"customer.account_manager", "employee.office"},
		{"project.client", "customer.invoice_days"}, {"project.client", "customer.segment"}, {"project.client", "customer.credit_limit"}}
	heldSQLWeb = [][2]string{{"site.region", "region.public_holiday"}, {"site.region", "region.import_duty"}, {"supplier.region", "region.permit_fee"},
		{"supplier.region", "region.main_buyer"}, {"project.manager", "employee.patent_count"}, {"customer.account_manager", "employee.talk_city"},
		{"product.inventor", "employee.salary"}, {"product.inventor", "employee.hire_date"}, {"product.inventor", "employee.office"}, {"project.spokesman", "employee.vacation_days"},
		{"project.spokesman", "employee.department"}, {"region.main_buyer", "customer.discount"}, {"region.main_buyer", "customer.account_manager"}}
	heldDocWeb = [][2]string{{"site.fire_warden", "employee.patent_count"}, {"supplier.auditor", "employee.talk_city"}, {"product.inventor", "employee.training_fund"},
		{"product.inventor", "employee.review_date"}, {"project.spokesman", "employee.badge_colour"}, {"region.main_buyer", "customer.late_penalty"},
		{"region.main_buyer", "customer.renewal_date"}, {"region.main_buyer", "customer.sponsor"}}
	heldHops = slices.Concat(heldJoins, heldSQLWeb, heldDocWeb)
)

// heldTemplates have trained combinations and structures; train knows their attributes from other templates. Each asks for twelve
// attributes or more in the end (the documents and the web: eight), so that its result does not depend on how well one of them is known.
var heldTemplates = []template{
	{name: "sql_join_held", structure: hop, difficulty: 2, weight: 1, phrasings: askHop,
		variants: pairs("", heldJoins...)},
	{name: "doc_percent", structure: opConst, difficulty: 2, weight: 1, phrasings: askPct,
		variants: withOp([]string{"%"}, numbers(Doc)...)},
	{name: "web_plus", structure: opConst, difficulty: 2, weight: 1, phrasings: askConst,
		variants: withOp([]string{"+"}, append(numbers(Web), "customer.staff_count")...)},
	{name: "sql_web_product", structure: opFacts, difficulty: 3, weight: 1, phrasings: askOp,
		variants: together("*", SQL, Web)},
	{name: "doc_web_held", structure: hop, difficulty: 2, weight: 1, phrasings: askHop,
		variants: pairs("", heldDocWeb...)},
	{name: "sql_web_held", structure: hop, difficulty: 2, weight: 1, phrasings: askHop,
		variants: pairs("", heldSQLWeb...)},
}

// heldCombos are the combinations that train never shows: doc + web + calculator and sql + doc. Their wordings use words that
// train has, so that a tiny model fails at the combination or not at all.
var heldCombos = []template{
	{name: "doc_web_sum", structure: opFacts, tag: TagNewFilling, difficulty: 3, weight: 4, phrasings: askOp,
		variants: append(pairs("+", [2]string{"product.handling_fee", "product.rival_price"}, [2]string{"supplier.rebate", "supplier.share_price"}, [2]string{"customer.late_penalty", "customer.store_count"}),
			pairs("-", [2]string{"product.test_load", "product.noise_level"}, [2]string{"region.travel_allowance", "region.import_duty"})...)},
	{name: "doc_web_hop_arith", structure: hopOpConst, tag: TagNewFilling, difficulty: 3, weight: 3, phrasings: askHopOp,
		variants: append(pairs("*", [2]string{"product.service_lead", "employee.patent_count"}, [2]string{"supplier.auditor", "employee.patent_count"}),
			pairs("+", [2]string{"customer.sponsor", "employee.patent_count"}, [2]string{"project.reviewer", "employee.patent_count"})...)},
	{name: "doc_web_sum_times", structure: opFactsConst, tag: TagNewStructure, difficulty: 3, weight: 4,
		phrasings: []string{"Take the {a} of {E} plus its {b}, what is it times {k}?", "{E}: what is its {a} plus its {b}, what is it times {k}?"},
		variants:  pairs("+", [2]string{"product.handling_fee", "product.rival_price"}, [2]string{"supplier.rebate", "supplier.share_price"}, [2]string{"customer.late_penalty", "customer.store_count"})},
	{name: "sql_doc_hop", structure: hop, tag: TagNewFilling, difficulty: 2, weight: 3, phrasings: askHop,
		variants: pairs("", [2]string{"product.supplier", "supplier.audit_score"}, [2]string{"product.supplier", "supplier.rebate"}, [2]string{"project.client", "customer.late_penalty"},
			[2]string{"project.manager", "employee.training_fund"}, [2]string{"employee.office", "site.visitor_limit"})},
	{name: "sql_doc_compare", structure: versus, tag: TagNewFilling, difficulty: 2, weight: 3, phrasings: askVs,
		variants: pairs("", [2]string{"product.unit_price", "product.handling_fee"}, [2]string{"product.stock", "product.warranty"}, [2]string{"customer.discount", "customer.response_hours"}, [2]string{"supplier.lead_days", "supplier.rebate"})},
	{name: "sql_doc_both", structure: both, tag: TagNewStructure, difficulty: 2, weight: 3,
		phrasings: []string{"What is the {a} of {E}, what is its {b}?", "{E}: what is its {a}, what is its {b}?"},
		variants:  pairs("", [2]string{"product.unit_price", "product.warranty"}, [2]string{"supplier.lead_days", "supplier.audit_score"}, [2]string{"customer.discount", "customer.late_penalty"}, [2]string{"project.team_size", "project.downtime"})},
}

// twoSource asks for a fact that stands in both corpora.
var twoSource = []template{
	{name: "two_source", structure: oneFact, tag: TagTwoSource, difficulty: 1, weight: 1, phrasings: askThing, unseen: askThing2, variants: vs("product.guide_price")},
}
