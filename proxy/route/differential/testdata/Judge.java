// Answers with what applications in Java make of a request: a servlet in
// Tomcat, twice, as it comes and with everything let through that can be, and
// the JDK's own server. Its arguments: the mark that parts the fields of an
// answer, and a directory for Tomcat. It says its ports in one line and ends
// when its standard input does.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.xpath.XPathFactory;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.w3c.dom.Document;
import org.w3c.dom.Element;

public class Judge {
    static String mark;
    static final ObjectMapper mapper = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        mark = args[0];
        java.util.logging.LogManager.getLogManager().reset();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(args[1]);
        Connector plain = connector(), lenient = connector();
        lenient.setEncodedSolidusHandling("passthrough");
        lenient.setProperty("relaxedPathChars", "\"<>[\\]^`{|}");
        lenient.setProperty("relaxedQueryChars", "\"<>[\\]^`{|}");
        lenient.setProperty("rejectIllegalHeader", "false");
        lenient.setUseBodyEncodingForURI(true);
        tomcat.setConnector(plain);
        tomcat.getService().addConnector(lenient);
        var context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "judge", new Servlet());
        context.addServletMappingDecoded("/*", "judge");
        tomcat.start();

        HttpServer jdk = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 128);
        jdk.setExecutor(Executors.newFixedThreadPool(6));
        jdk.createContext("/", Judge::answer);
        jdk.start();
        System.out.println(plain.getLocalPort() + " " + lenient.getLocalPort() + " " + jdk.getAddress().getPort());
        while (System.in.read() >= 0) { }
        System.exit(0);
    }

    static Connector connector() {
        Connector c = new Connector();
        c.setPort(0);
        c.setProperty("address", "127.0.0.1");
        c.setProperty("maxThreads", "6");
        return c;
    }

    static class Servlet extends HttpServlet {
        @Override
        protected void service(HttpServletRequest req, HttpServletResponse resp) throws IOException {
            Map<String, String> fields = new LinkedHashMap<>();
            fields.put("path", req.getServletPath() + (req.getPathInfo() == null ? "" : req.getPathInfo()));
            fields.put("segments", segments(req.getRequestURI()));
            // Parameters first: they are of the body where that is a form and
            // nothing else has read it.
            fields.put("id", req.getParameter("id"));
            fields.put("query", req.getParameter("order_id"));
            fields.put("form", req.getParameter("order_id"));
            fields.put("host", req.getServerName().toLowerCase().replaceAll("\\.$", ""));
            fields.put("token", text(req.getHeader("X-Fencing-Token")));
            fields.put("box", text(req.getHeader("X-Box")));
            byte[] body = req.getInputStream().readAllBytes();
            if (body.length > 0) {
                fields.put("json", attempt(() -> json(mapper.readTree(body))));
                // As getReader does it.
                String said = req.getCharacterEncoding();
                fields.put("reader", attempt(() -> json(mapper.readTree(new InputStreamReader(new ByteArrayInputStream(body),
                    said == null ? StandardCharsets.ISO_8859_1 : Charset.forName(said))))));
                xml(fields, body);
            }
            byte[] out = join(fields);
            resp.setContentLength(out.length);
            resp.getOutputStream().write(out);
        }
    }

    // answer is what the JDK's own server is given.
    static void answer(HttpExchange ex) throws IOException {
        Map<String, String> fields = new LinkedHashMap<>();
        fields.put("path", ex.getRequestURI().getPath());
        fields.put("id", field(ex.getRequestURI().getRawQuery(), "id"));
        fields.put("query", field(ex.getRequestURI().getRawQuery(), "order_id"));
        fields.put("host", text(ex.getRequestHeaders().getFirst("Host")).toLowerCase().replaceAll("\\.?(:80)?$", ""));
        fields.put("token", text(ex.getRequestHeaders().getFirst("X-Fencing-Token")));
        fields.put("box", text(ex.getRequestHeaders().getFirst("X-Box")));
        byte[] body = ex.getRequestBody().readAllBytes();
        fields.put("form", field(new String(body, StandardCharsets.UTF_8), "order_id"));
        byte[] out = join(fields);
        ex.sendResponseHeaders(200, out.length);
        ex.getResponseBody().write(out);
        ex.close();
    }

    // segments decodes the parts of a path one by one and drops their
    // parameters, as Spring's patterns do.
    static String segments(String uri) {
        StringBuilder b = new StringBuilder();
        for (String segment : uri.split("/", -1)) {
            String bare = segment.replaceAll(";.*$", "");
            String decoded = attempt(() -> URLDecoder.decode(bare.replace("+", "%2B"), StandardCharsets.UTF_8));
            if (decoded == null) {
                return null;
            }
            b.append(b.length() == 0 && segment.isEmpty() ? "/" : decoded.replace("%", "%25").replace("/", "%2F") + "/");
        }
        return b.substring(0, Math.max(0, b.length() - 1));
    }

    // field is the first of its name, as many read a query by hand.
    static String field(String query, String name) {
        for (String pair : query == null ? new String[0] : query.split("&")) {
            String[] parts = pair.split("=", 2);
            String n = attempt(() -> URLDecoder.decode(parts[0], StandardCharsets.UTF_8));
            if (name.equals(n) && parts.length == 2) {
                return attempt(() -> URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
            }
        }
        return null;
    }

    static String json(JsonNode node) {
        JsonNode value = node.path("order_id");
        return value.isValueNode() && !value.isNull() ? value.asText() : null;
    }

    static void xml(Map<String, String> fields, byte[] body) {
        try {
            var builder = DocumentBuilderFactory.newInstance().newDocumentBuilder();
            builder.setErrorHandler(null);
            Document d = builder.parse(new ByteArrayInputStream(body));
            Element root = d.getDocumentElement();
            var path = XPathFactory.newInstance().newXPath();
            if ((boolean) path.evaluate("/order/id", d, javax.xml.xpath.XPathConstants.BOOLEAN)) {
                fields.put("xml", path.evaluate("/order/id", d));
            }
            if (root.getTagName().equals("order") && root.hasAttribute("id")) {
                fields.put("attribute", root.getAttribute("id"));
            }
        } catch (Exception e) {
            // It is no XML to this parser.
        }
    }

    static String text(String s) { return s == null ? "" : s; }

    static <T> T attempt(Callable<T> f) {
        try {
            return f.call();
        } catch (Exception e) {
            return null;
        }
    }

    static byte[] join(Map<String, String> fields) {
        return fields.entrySet().stream().filter(e -> e.getValue() != null).map(e -> e.getKey() + "=" + e.getValue())
            .collect(Collectors.joining(mark)).getBytes(StandardCharsets.UTF_8);
    }
}
