# ActiveRecord: where with a list, with a relation, and its two ways to load children.
require "active_record"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", database: "clients", host: ENV["PGHOST"], port: ENV["PGPORT"],
  username: ENV["PGUSER"]
)

class Customer < ActiveRecord::Base
  has_many :orders
end

class Order < ActiveRecord::Base
  belongs_to :customer
end

chosen = Customer.where(region: 7)
case step = ARGV[0]
when "in"
  ids = File.readlines(ENV["IDS"]).map(&:to_i)
  Order.where(id: ids).each { |o| puts [o.id, o.customer_id, o.amount].join("|") }
when "subquery"
  Order.where(customer_id: chosen).each { |o| puts [o.customer_id, o.id, o.amount].join("|") }
when "preload", "eager"
  (step == "preload" ? chosen.preload(:orders) : chosen.eager_load(:orders)).each do |c|
    c.orders.each { |o| puts [c.id, o.id, o.amount].join("|") }
  end
else
  abort "no step #{step}"
end
