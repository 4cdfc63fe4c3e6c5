package stepinto.runner;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/**
 * What JUnit asks for its extensions: the thread's class loader and the settings among the system
 * properties. A test that changes them steers itself alone, not those after it.
 */
final class Surroundings {
    private final ClassLoader loader = Thread.currentThread().getContextClassLoader();
    private final Map<String, String> settings = settings();

    void restore() {
        Thread.currentThread().setContextClassLoader(loader);
        Properties properties = System.getProperties();
        properties.keySet().removeAll(settings().keySet());
        properties.putAll(settings);
    }

    private static Map<String, String> settings() {
        Map<String, String> found = new HashMap<String, String>();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("junit.")) {
                found.put(name, System.getProperty(name));
            }
        }
        return found;
    }
}
