// play.mjs BINARY FOLDER: the story of `run`, against a sidecar of its own.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Kafka, logLevel } from "kafkajs";
import puppeteer from "puppeteer-core";

const [binary, folder] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PATIENCE_MS = 60_000;
const DESK = { width: 1100, height: 900 };
const PAGE_BYTES_MAX = 150 * 1024;
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];

let passed = 0;
const failures = [];
function check(holds, says) {
  if (holds) passed += 1;
  else failures.push(says);
  console.log(`${holds ? "ok  " : "FAIL"}  ${says}`);
}

async function until(says, holds) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`still waiting until ${says}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const dir = mkdtempSync(join(tmpdir(), "reprise-browser-"));
const ready = join(dir, "ready");
const sidecar = spawn(binary, [
  "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data-dir", join(dir, "data"),
  "--ready-file", ready, "--set", "journal.ephemeral=accept", "--set", "drain.timeout=0s",
  "--set", "log.filter=error",
], { stdio: ["ignore", "inherit", "inherit"] });
const browser = await puppeteer.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const consumers = [];
try {
  await until("the sidecar is ready", () => existsSync(ready));
  const [kafka, admin] = readFileSync(ready, "utf8").trim().split(/\s+/);
  await play(kafka, `http://${admin}`);
} catch (error) {
  check(false, String(error.stack ?? error));
} finally {
  await Promise.allSettled(consumers.map((consumer) => consumer.disconnect()));
  await browser.close();
  sidecar.kill();
  rmSync(dir, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length === 0 ? 0 : 1);

// Dead letters of 400 payments: the address of every eightieth is bad.
async function fill(client, admin) {
  const producer = client.producer();
  await producer.connect();
  const messages = Array.from({ length: 400 }, (_, n) => ({
    key: `payment-${n}`,
    value: JSON.stringify({ payment: n, total: "1.10", currency: "EUR" }),
    headers: { tenant: "a" },
  }));
  await producer.send({ topic: "payments", messages });
  const reader = client.consumer({ groupId: "shop" });
  await reader.connect();
  await reader.subscribe({ topics: ["payments", "reprise.retry.shop"], fromBeginning: true });
  let seen = 0;
  await reader.run({ eachMessage: async () => { seen += 1; } });
  await until("all payments are read", () => seen === 400);
  await reader.disconnect();
  for (let offset = 0; offset < 400; offset += 1) {
    const reason = offset % 80 === 79 ? `bad address '${offset}'` : `no stock for item ${offset}`;
    const nack = { group: "shop", topic: "payments", partition: 0, offset, reason, level: -1 };
    const answer = await fetch(`${admin}/api/v1/nack`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(nack),
    });
    if (!answer.ok) throw new Error(await answer.text());
  }
  await producer.disconnect();
}

// Judges a page by axe-core, its size and its line breaks, and takes its picture.
async function judge(page, name) {
  await page.evaluate(AXE);
  const found = await page.evaluate((tags) => axe.run(document, { runOnly: tags }), TAGS);
  const says = found.violations.map((one) => `${one.id} at ${one.nodes[0].target}`).join(", ");
  check(found.violations.length === 0, `${name}: WCAG AA by axe-core ${says}`);
  const bytes = await page.evaluate(() => document.documentElement.outerHTML.length);
  check(bytes <= PAGE_BYTES_MAX, `${name}: ${Math.round(bytes / 1024)} KiB`);
  const [sideways, broken] = await page.evaluate(() => [
    document.documentElement.scrollWidth - innerWidth,
    [...document.querySelectorAll("time, .number")].filter((one) => {
      const lines = document.createRange();
      lines.selectNodeContents(one);
      return new Set([...lines.getClientRects()].map((line) => Math.round(line.bottom))).size > 1;
    }).length,
  ]);
  check(sideways <= 0, `${name}: only tables scroll sideways ${sideways}`);
  check(broken === 0, `${name}: times and numbers stay on one line ${broken}`);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-paint")[0]?.startTime);
  console.log(`measured: ${name}: first paint after ${Math.round(paint)} ms`);
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: false });
}

// Judges a page as it is, and in dark colours on a phone.
async function judgeBoth(page, name) {
  await judge(page, name);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.setViewport({ width: 390, height: 800 });
  await judge(page, `${name}-dark-phone`);
  await page.emulateMediaFeatures([]);
  await page.setViewport(DESK);
}

// Draws the page into an SVG file of text, with its own style: README shows it.
async function draw(page, name) {
  const svg = await page.evaluate(() => {
    const style = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
    const copy = document.documentElement.cloneNode(true);
    copy.querySelectorAll("script, link, meta, title").forEach((one) => one.remove());
    const own = document.createElement("style");
    own.textContent = style.map((rule) => rule.cssText).join("\n");
    copy.querySelector("head").append(own);
    const xhtml = new XMLSerializer().serializeToString(copy);
    const [width, height] = [innerWidth, document.documentElement.scrollHeight];
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ` +
      `width="${width}" height="${height}"><foreignObject width="100%" height="100%">` +
      `${xhtml}</foreignObject></svg>\n`;
  });
  writeFileSync(join(folder, `${name}.svg`), svg);
  const drawn = await page.evaluate(async (source) => {
    const image = new Image();
    image.src = `data:image/svg+xml,${encodeURIComponent(source)}`;
    await image.decode();
    return [image.naturalWidth, image.naturalHeight];
  }, svg);
  check(drawn[0] === DESK.width && drawn[1] > 300, `${name}: drawn in ${drawn} pixels`);
  check(svg.length <= PAGE_BYTES_MAX, `${name}: ${Math.round(svg.length / 1024)} KiB as a picture`);
}

async function text(page) {
  return page.evaluate(() => document.body.innerText);
}

async function follow(page, selector) {
  await Promise.all([page.waitForNavigation(), page.click(selector)]);
}

// From the group to its list, and through the list by keys.
async function lists(page, admin) {
  await page.goto(`${admin}/groups/shop`);
  await follow(page, 'a[href$="/groups/shop/letters"]');
  check((await text(page)).includes("all dead letters"), "the group leads to its list");
  await page.goto(`${admin}/groups/shop/letters?cause=explicit_dlq`);
  check((await text(page)).includes("cause explicit_dlq"), "a list can have one cause");
  await judgeBoth(page, "letters");
  const marks = () => page.$$eval("td.mark input", (all) => all.filter((one) => one.checked).length);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  const second = await page.$eval("tbody tr:nth-child(2) td.mark input", (one) => one.checked);
  check(second && await marks() === 1, "j, j and x mark the second row");
  await page.click("th.mark input");
  check(await marks() === 100, "the head marks all rows of the page");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("/");
  const focused = await page.evaluate(() => document.activeElement.id);
  check(focused === "filter", "/ goes to the filter");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("?");
  check((await text(page)).includes("mark the row"), "? lists the keys");
  await judge(page, "keys");
  await page.keyboard.press("Escape");
  await follow(page, 'a[rel="next"]');
  check(await page.$$eval("td.mark input", (all) => all.length) === 100, "the next page has rows");
  await page.goto(`${admin}/groups/shop/waiting`);
  await judgeBoth(page, "waiting");
  await page.goto(`${admin}/journal`);
  check((await text(page)).includes("reprise.dlq.shop"), "the journal page lists the dead letters");
  await judgeBoth(page, "journal");
}

// Discards one letter, and takes that back by the button in the message.
async function undo(page, admin) {
  await page.goto(`${admin}/groups/shop/letters/79`);
  await follow(page, 'button[value="discard"]');
  check((await text(page)).includes("1 records changed."), "one letter is discarded");
  await follow(page, '.said button[value="restore"]');
  check((await text(page)).includes("1 records changed."), "and restored by the message");
  await page.goto(`${admin}/groups/shop/letters/79`);
  check((await text(page)).includes("State\ndead"), "it is a dead letter again");
  await page.goto(`${admin}/groups/shop`);
}

async function play(kafka, admin) {
  const client = new Kafka({ clientId: "browser", brokers: [kafka], logLevel: logLevel.NOTHING });
  await fill(client, admin);
  const page = await browser.newPage();
  await page.setBypassCSP(true); // for axe-core
  await page.setViewport(DESK);
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));

  await page.goto(`${admin}/`);
  const now = await text(page);
  check(now.includes("shop"), "the first page names the group");
  check(now.includes("no stock for item #") && now.includes("a-#"), "the first page has kinds");
  await judge(page, "now");
  await draw(page, "page");
  await follow(page, 'a[href="/groups/shop"]');
  const kinds = await text(page);
  check(kinds.includes("395 × explicit_dlq of payments: no stock for item #"), "395 of one kind");
  check(kinds.includes("5 × explicit_dlq of payments: bad address «…»"), "5 of another kind");
  await judge(page, "group");

  await page.goto(`${admin}/`);
  await page.type('input[name="q"]', "payment-319");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  check((await text(page)).includes("payments-0@319\tshop\tdead\tpayment-319"), "a payment is found by key");
  await judgeBoth(page, "search");
  await page.goto(`${admin}/groups/shop/letters/79`);
  check((await text(page)).includes("bad address '79'"), "one record with its reason");
  await judgeBoth(page, "letter");
  await follow(page, 'a[href$="?as=hex#value"]');
  check((await text(page)).includes("00000000  7b 22 70 61"), "its value in hexadecimal");
  await judgeBoth(page, "letter-hex");
  await lists(page, admin);
  await page.goto(`${admin}/groups/shop/letters/0`);
  await page.click("details summary");
  await page.type('form.edit input[name="set_header"]', "tenant=b");
  await page.type('form.edit input[name="note"]', "INC-9: wrong tenant");
  await follow(page, 'form.edit button[value="redrive"]');
  check((await text(page)).includes("Who are you?"), "the page asks once who acts");
  await judge(page, "name");
  await page.type('input[name="operator"]', "kim");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  check((await text(page)).includes("1 records changed."), "a header is mended");
  await undo(page, admin);

  // The job of the 394 others, by the keyboard.
  await page.focus('section.cause button[value="redrive"]');
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  const plan = await text(page);
  check(plan.includes("394 letters match. Nothing is changed yet."), "the plan counts the records");
  check(plan.includes("no stock for item 1"), "the plan shows the first of them");
  check(await page.$eval('input[name="canary"]', (one) => one.value) === "5", "with a canary of 5");
  await judgeBoth(page, "plan");
  await page.$eval('input[name="rate"]', (one) => { one.value = "1000"; });
  await page.focus('input[name="note"]');
  await page.keyboard.type("INC-9: stock is back");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  check((await text(page)).includes("Job 1 has started."), "a job starts by the keyboard");
  await until("the canary is out", async () => {
    await page.goto(`${admin}/jobs/1`);
    return (await text(page)).includes("waits for the outcomes of its first 5 records");
  });
  const waiting = await text(page);
  check(waiting.includes("5 of 394 letters"), "the page of the job counts");
  check(waiting.includes("Start the application"), "and says that no consumer is connected");
  await judgeBoth(page, "job");
  await page.goto(`${admin}/jobs`);
  await judge(page, "jobs");
  check(true, "the others wait for the canary");

  const handled = new Map();
  const consumer = client.consumer({ groupId: "shop" });
  consumers.push(consumer);
  await consumer.connect();
  await consumer.subscribe({ topic: "reprise.retry.shop" });
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ message }) => {
      const key = message.key.toString();
      handled.set(key, { times: (handled.get(key)?.times ?? 0) + 1, headers: message.headers });
    },
  });
  await page.mouse.move(5, 5);
  await until("the page shows by itself that the job is done", async () => {
    const says = await text(page);
    return says.includes("394 changed") && says.includes("done");
  });
  check(true, "the page refreshes itself");
  await until("all are handled", () => handled.size === 395);
  check([...handled.values()].every((one) => one.times === 1), "395 records came once each");
  check(handled.get("payment-0").headers.tenant.toString() === "b", "with the mended header");

  const strict = await browser.newPage();
  const refused = [];
  strict.on("console", (message) => { if (message.type() === "error") refused.push(message.text()); });
  await strict.goto(`${admin}/groups/shop`);
  await until("its script runs under the policy", async () => (await text(strict)).includes("live"));
  check(refused.length === 0, `the policy allows what the page needs ${refused.join(", ")}`);
  await strict.close();

  await page.goto(`${admin}/groups/shop`);
  await follow(page, 'section.cause button[value="discard"]');
  await page.type('input[name="note"]', "INC-9: refunded");
  await follow(page, 'button.danger');
  check((await text(page)).includes("Job 2 has started."), "5 are discarded");
  await until("nothing is left", async () => {
    await page.goto(`${admin}/groups/shop`);
    return (await text(page)).includes("This group has no dead letters.");
  });
  await page.goto(`${admin}/audit`);
  const audit = await text(page);
  for (const words of [
    "edit\tshop\t1", "job-done job 1\tshop\t394", "job-done job 2\tshop\t5", "INC-9: refunded",
    "kim (claimed)", "payments-0@",
  ]) {
    check(audit.includes(words), `the audit log has ${words.replaceAll("\t", " ")}`);
  }
  await judge(page, "audit");
  await page.goto(`${admin}/login`);
  await judge(page, "login");
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.setViewport({ width: 390, height: 800 });
  await page.goto(`${admin}/groups/shop`);
  await judge(page, "group-dark-phone");
  await page.goto(`${admin}/jobs`);
  await judge(page, "jobs-dark-phone");
  check(errors.length === 0, `no error of a script ${errors.join(", ")}`);
}
